"""The report of a run: curves, samples and findings from its journal, as `report.html` and as JSON. No torch."""

from regard.report.live import LiveReport, is_out_of_date
from regard.report.page import report_page, summary_line
from regard.report.run_reader import RunReader
from regard.report.summary import RunSummary
from regard.report.verdict import fine_tuning_sentences, int8_sentence, verdict

__all__ = [
    "LiveReport",
    "RunReader",
    "RunSummary",
    "fine_tuning_sentences",
    "int8_sentence",
    "is_out_of_date",
    "report_page",
    "summary_line",
    "verdict",
]
