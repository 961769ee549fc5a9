"""One table of flags, four places to set them, errors that name the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radixrt.config import EngineConfig, flag_table, resolve
from radixrt.errors import InvalidRequest


def test_argument_beats_environment_beats_file(tmp_path: Path) -> None:
    file = tmp_path / "radixrt.toml"
    file.write_text('chunk = 10\nmax_running = 20\npolicy = "fcfs"\n')
    environ = {"RADIXRT_MAX_RUNNING": "30", "RADIXRT_POLICY": "dfs"}
    config = resolve({"policy": "random", "threads": None}, file=file, environ=environ)
    assert (config.chunk, config.max_running, config.policy, config.threads) == (10, 30, "random", 0)


def test_every_flag_can_be_set_by_argument_environment_and_file(tmp_path: Path) -> None:
    for flag in flag_table().values():
        value = flag.choices[-1] if flag.choices else flag.type(1)
        file = tmp_path / "one.toml"
        file.write_bytes(_toml(flag.name, value))
        made = [
            resolve({flag.name: value}, environ={}),
            resolve({}, environ={flag.variable: str(value)}),
            resolve({}, file=file, environ={}),
        ]
        assert [getattr(config, flag.name) for config in made] == [value] * 3


def _toml(name: str, value: Any) -> bytes:
    return f"{name} = {value!r}\n".encode()


@pytest.mark.parametrize(
    ("arguments", "environ", "named"),
    [
        ({"chunks": 1}, {}, "chunks"),
        ({"chunk": 0}, {}, "chunk"),
        ({"chunk": 1.5}, {}, "chunk"),
        ({"chunk": True}, {}, "chunk"),
        ({"policy": "program"}, {}, "policy"),
        ({"quantization": "q8_0"}, {}, "quantization"),
        ({"radix": ["on"]}, {}, "radix"),
        ({"heartbeat_s": 0}, {}, "heartbeat_s"),
        ({"max_total_tokens": 2**63}, {}, "max_total_tokens"),
        ({"page_size": 2**40}, {}, "page_size"),
        ({"force_retract_every": 2**65}, {}, "force_retract_every"),
        ({"heartbeat_s": float("nan")}, {}, "heartbeat_s"),
        ({}, {"RADIXRT_CHUNK": "many"}, "RADIXRT_CHUNK"),
        ({}, {"RADIXRT_RADIX": "maybe"}, "RADIXRT_RADIX"),
    ],
)
def test_what_is_wrong_is_named(arguments: dict[str, Any], environ: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        resolve(arguments, environ=environ)
    assert caught.value.param == named
    assert named in str(caught.value)


def test_a_file_that_is_wrong_is_named(tmp_path: Path) -> None:
    for text in ("chunk = ", "chunk = 'x'", "no_such = 1"):
        file = tmp_path / "bad.toml"
        file.write_text(text)
        with pytest.raises(InvalidRequest):
            resolve({}, file=file, environ={})
    with pytest.raises(InvalidRequest, match="nowhere"):
        resolve({}, file=tmp_path / "nowhere.toml", environ={})


def test_the_config_is_frozen() -> None:
    with pytest.raises(AttributeError):
        EngineConfig().chunk = 3  # type: ignore[misc]


def test_on_and_off_may_be_booleans() -> None:
    assert resolve({"forced_tokens": False}, environ={}).forced_tokens == "off"
