"""The benchmarks follow the package: every program loads, and what they use of it works."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.artifact import load_model
from regard.models import Transformer, TransformerConfig
from regard.training import TrainingConfig

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SHAPE = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.1}


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_every_benchmark_loads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # restored afterwards: one of them sets it
    monkeypatch.syspath_prepend(BENCHMARKS)
    runpy.run_path(str(path), run_name="benchmark")


@pytest.mark.parametrize(
    "shape", [SHAPE | {"architecture": "transformer"}, {"architecture": "convs2s", "d_model": 16, "kernel": 3}]
)
def test_train_speed_measures_training_steps(tmp_path: Path, shape: dict[str, Any]) -> None:
    (tmp_path / "shape.json").write_text(json.dumps(shape | {"n_symbols": 20, "n_threads": 1}))
    ids = np.array([[5, 6, 3], [7, 3, 0]])
    np.savez(tmp_path / "batches.npz", src0=ids, in0=ids, out0=ids)
    command = [sys.executable, BENCHMARKS / "train_speed.py", "--ours", "shape.json", "batches.npz", "1"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    assert result["tokens_per_second"] > 0 and 2 < result["loss"] < 5  # ln 20 is 3.0


def test_soap_replaces_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    soap = runpy.run_path(str(BENCHMARKS / "soap.py"), run_name="benchmark")["Soap"]
    monkeypatch.setattr("regard.training.optimizers.Muon", soap)
    from regard.training.optimizers import make_optimizer

    model = Transformer(TransformerConfig(**SHAPE), 20, 20)
    optimizer = make_optimizer(TrainingConfig(optimizer="muon"), model)
    before = [parameter.clone() for parameter in model.parameters()]
    for _ in range(2):  # the first step only initialises the basis
        model(torch.tensor([[5, 3]]), torch.tensor([[2, 6]])).sum().backward()
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        optimizer.step()
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_harness_of_the_faults_saves_models_that_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from faults.harness import Harness

    model = Harness(tmp_path, quick=True).save_model(tmp_path / "model")
    assert load_model(model).model.n_parameters > 0
