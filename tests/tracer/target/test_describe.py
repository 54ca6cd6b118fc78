"""What a capture says about its target and machine, and what it must not say."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from launchscope.tracer.target import describe
from launchscope.tracer.target.options import Setting, Target
from launchscope.tracer.target.target import Resolved


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("model.py", ("model.py", None)),
        ("a/model.py:build", ("a/model.py", "build")),
        ("package.module:build", ("package.module", "build")),
        ("a:b.py", ("a:b.py", None)),
        (":build", (":build", None)),
    ],
)
def test_a_target_is_a_place_and_a_name(spec: str, parts: tuple[str, str | None]) -> None:
    assert describe.parts_of_target(spec) == parts


def test_target_names_have_no_folder() -> None:
    specs = ["/home/ada/model.py", "a/model.py:build", "model.py", "package.module:step"]
    assert [describe.target_name(spec) for spec in specs] == [
        "model.py", "model.py:build", "model.py", "package.module:step",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "key",
    [
        *("token", "api_key", "HF_TOKEN", "password", "client_secret", "credentials", "auth"),
        *("hfToken", "pwd", "accessKeyId", "tokens", "bearer", "auth_header"),
    ],
)
def test_secrets_are_masked(key: str) -> None:
    assert describe.masked({key: "hush", "layers": "2"}) == {key: "***", "layers": "2"}
    for words in (["--set", f"{key}=hush"], [f"--set={key}=hush"], [f"--set={key}=hush=hush"]):
        command = describe.masked_command(["launchscope", "profile", "model.py", *words])
        assert not any("hush" in word for word in command)
        assert any(key in word for word in command)


@pytest.mark.parametrize("key", ["num_key_value_heads", "max_new_tokens", "keys", "author"])
def test_what_only_looks_a_little_like_a_secret_stays(key: str) -> None:
    assert describe.masked({key: "8"}) == {key: "8"}


def test_secrets_in_what_is_no_secret_by_its_name() -> None:
    given = {
        "endpoint": "https://me:hunter2@host/v1?sig=hunter2&part=3",
        "header": "Authorization: Bearer hunter2",
        "config": '{"hf_token": "hunter2", "layers": 2}',
        "note": "hf_hunter2hunter2hunter2",
        "ratio": "1/2",
    }
    kept = {
        "endpoint": "https://…@host/v1?sig=…&part=3",
        "header": "Authorization: … …",
        "config": '{"hf_token": "…", "layers": 2}',
        "note": "…",
        "ratio": "1/2",
    }
    assert describe.masked(given) == kept
    words = [word for key, value in given.items() for word in ("--set", f"{key}={value}", f"--set={key}={value}")]
    script = ["train.py", *words, "--hf-token", "hunter2", "--password=hunter2", "https://me:hunter2@host", "-v", "2"]
    script += ["--max-new-tokens", "128"]
    command = describe.masked_command(script)
    assert "hunter2" not in " ".join(command)
    assert command[-7:] == ("***", "--password=***", "…@host", "-v", "2", "--max-new-tokens", "128")


def test_a_command_names_no_host() -> None:
    words = ["launchscope", "profile", "m.py", "--rdzv-endpoint", "node7:29400", "--local-addr=node7", "--nnodes", "2"]
    assert describe.masked_command(words)[3:] == ("--rdzv-endpoint", "***", "--local-addr=***", "--nnodes", "2")


def test_hosts_go_by_their_numbers() -> None:
    hosts = {"node7": "host 0", "node70.example.org": "host 1"}
    text = "node7: no answer of node70.example.org:29400 (node7.example.org), step 7 of node-7, mynode7"
    assert describe.without_hosts(text, hosts) == (
        "host 0: no answer of host 1:29400 (host 0), step 7 of node-7, mynode7"
    )


def test_the_program_is_named_however_it_was_started() -> None:
    assert describe.masked_command(["/opt/x/launchscope/__main__.py", "demo"]) == ("launchscope", "demo")


def test_bytes_that_are_not_utf_8_are_told() -> None:
    path = "mod\udcffel.py"  # as Python gives a file name with the byte 0xff
    assert describe.target_name(path) == "mod\\xffel.py"
    assert describe.masked_command(["launchscope", "profile", path]) == ("launchscope", "profile", "mod\\xffel.py")


def test_the_command_keeps_its_words_without_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    words = "/usr/bin/launchscope profile ../mine/model.py:build --set layers=2 --set ratio=1/2 -o /home/ada/kept"
    assert describe.masked_command(words.split()) == (
        "launchscope", "profile", "model.py:build", "--set", "layers=2", "--set", "ratio=1/2", "-o", "kept",
    )  # fmt: skip
    assert describe.masked_command(["--set", "weights=/home/ada/w.pt", "--output=/home/ada/x"]) == (
        "--set", "weights=w.pt", "--output=x",
    )  # fmt: skip


def test_settings_name_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    given = {"weights": "/home/ada/w.pt", "other": "/home/adamant/w.pt", "home": "/home/ada"}
    assert describe.masked(given) == {"weights": "~/w.pt", "other": "/home/adamant/w.pt", "home": "~"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    surroundings = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    (tmp_path / "model.py").write_text("step = print\n")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, env=surroundings)
    return tmp_path / "model.py"


def test_the_revision_is_the_commit_with_a_plus_for_changes(checkout: Path) -> None:
    commit = describe.revision(str(checkout))
    assert commit is not None
    assert len(commit) == 40
    assert describe.revision(f"{checkout}:build") == commit
    (checkout.parent / "notes.txt").write_text("not tracked")
    assert describe.revision(str(checkout)) == commit
    checkout.write_text("step = repr\n")
    assert describe.revision(str(checkout)) == f"{commit}+"


def test_no_revision_outside_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert describe.revision(str(tmp_path_factory.mktemp("plain") / "model.py")) is None
    monkeypatch.chdir(checkout.parent)
    assert describe.revision("package.module:step") is not None
    monkeypatch.setenv("PATH", "")
    assert describe.revision(str(checkout)) is None


def test_parameters_count_once() -> None:
    layer = torch.nn.Linear(2, 3)
    counted = [
        Resolved(Target(print, model=model), Setting(None, None, None, "cpu")).describe("model.py").parameters
        for model in (torch.nn.ModuleList([layer, layer]), None)
    ]
    assert counted == [9, None]
