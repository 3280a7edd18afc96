"""vLLM's own server with a small model that is noise, made here: nothing is fetched."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.daemons import running
from support.otlp import free_port

__all__ = ["MODEL", "Vllm", "made_model", "vllm_serving"]

MODEL: Final = "noise"
"""What it is called."""

# Loading its libraries alone takes half a minute on a small machine, and more on a busy one.
_START_S: Final = 300.0
_REQUEST_S: Final = 10.0
_MAKES_A_MODEL: Final = Path(__file__).parents[1] / "vllm" / "makes_a_model.py"


@dataclass(frozen=True, slots=True)
class Vllm:
    """
    A server that runs.

    Args:
        url: Where it listens.
    """

    url: str

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its ``base_url``."""
        return f"{self.url}/v1"

    def sums(self) -> dict[str, float]:
        """
        Return the sum and count of each of its histograms, and its counters and gauges.

        Series of one name are added up. Names are without the prefix ``vllm:``.
        """
        sums: dict[str, float] = {}
        for line in _get(f"{self.url}/metrics").splitlines():
            if line.startswith("vllm:"):
                series, value = line.rsplit(" ", 1)
                name = series.partition("{")[0].removeprefix("vllm:")
                sums[name] = sums.get(name, 0.0) + float(value)
        return sums


def made_model(folder: Path) -> Path:
    """Make a model that vLLM can load, and return where it is."""
    done = subprocess.run(
        [sys.executable, _MAKES_A_MODEL, folder], capture_output=True, text=True, timeout=_START_S
    )
    assert done.returncode == 0, done.stderr
    return folder


@contextmanager
def vllm_serving(model: Path, folder: Path, *, sequences: int, traces_url: str) -> Generator[Vllm]:
    """
    Run vLLM inside the block.

    Args:
        model: As :func:`made_model` made it.
        folder: For its log.
        sequences: Requests answered at once; the others queue.
        traces_url: The OTLP receiver to which it sends its own spans, without a path.
    """
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def healthy() -> bool:
        try:
            _get(f"{url}/health")
        except OSError:
            return False
        return True

    # The command `vllm` looks for a distribution of that name, which this one has not.
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        f"--model={model}",
        f"--served-model-name={MODEL}",
        "--load-format=dummy",
        "--host=127.0.0.1",
        f"--port={port}",
        "--max-model-len=2048",
        f"--max-num-seqs={sequences}",
        "--enforce-eager",
        "--dtype=bfloat16",
        f"--otlp-traces-endpoint={traces_url}/v1/traces",
        "--enable-per-request-metrics",
        "--enable-prompt-tokens-details",
        # Else a second prompt of the same words has no prefill.
        "--no-enable-prefix-caching",
    ]
    variables = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # Threads that spin at barriers on shared processors make everything slow.
        "OMP_NUM_THREADS": "1",
        "OTEL_SERVICE_NAME": "vllm",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        # Spans leave soon, so that a test need not wait for them.
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    with running(
        command,
        log=folder / "vllm.log",
        ready=healthy,
        variables=variables,
        start_s=_START_S,
    ):
        yield Vllm(url)


def _get(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_REQUEST_S) as response:
        return response.read().decode()
