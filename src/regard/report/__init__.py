"""The story of a run: its journal as curves, samples and findings; `report.html`, and JSON for the page. No torch."""

from regard.report.live import LiveReport, is_out_of_date, write_report
from regard.report.page import report_page, summary
from regard.report.run_reader import RunReader, read_run
from regard.report.summary import RunStory, SampleStory, StepPoint, ValidationPoint

__all__ = [
    "LiveReport",
    "RunReader",
    "RunStory",
    "SampleStory",
    "StepPoint",
    "ValidationPoint",
    "is_out_of_date",
    "read_run",
    "report_page",
    "summary",
    "write_report",
]
