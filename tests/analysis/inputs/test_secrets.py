"""Nothing that is printed or kept holds what a URL has of secrets."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.secrets import is_secret, told_without_secrets, without_secrets

from ..many.rank_files import rank_trace

SIGNED = "https://me:hunter2@host/a/rank0.json?part=3&X-Amz-Signature=0123abcd&X-Amz-Security-Token=t%2Fken"


def test_users_and_signatures_are_hidden_and_the_rest_stays() -> None:
    assert without_secrets(SIGNED) == (
        "https://…@host/a/rank0.json?part=3&X-Amz-Signature=…&X-Amz-Security-Token=…"
    )  # fmt: skip
    assert without_secrets("s3://bucket/a@b/rank*.json?") == "s3://bucket/a@b/rank*.json?"
    assert without_secrets("tls://me:p@ss@host:8786") == "tls://…@host:8786"
    assert without_secrets("/traces/me:hunter2@host?token=1") == "/traces/me:hunter2@host?token=1"


@pytest.mark.parametrize(
    "name",
    [
        "hfToken",
        "pwd",
        "accessKeyId",
        "AWSAccessKeyId",
        "tokens",
        "bearer",
        "auth_header",
        "api_key",
        "HF_TOKEN",
        "hftoken",
        "password",
        "dbPassword",
        "client_secret",
        "credentials",
        "auth",
        "session_token",
        "Key-Pair-Id",
        "X-Amz-Signature",
        "sig",
        "X%2DAmz%2DCredential",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name, "hush")
    assert without_secrets(f"https://host/a?{name}=hush#{name}=hush") == f"https://host/a?{name}=…#{name}=…"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", "128"),
        ("tokens", "128"),
        ("num_key_value_heads", "8"),
        ("key_cache_dtype", "fp8"),
        ("tokenizer", "llama"),
        ("author", "ada"),
        ("monkey", "grivet"),
        ("passes", "3"),
        ("partNumber", "3"),
    ],
)
def test_names_of_none(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_nor_does_what_a_library_says_of_it() -> None:
    said = f"403 for {SIGNED}; signature 0123abcd of me:hunter2 (hunter2), t/ken"
    told = told_without_secrets(said, SIGNED)
    assert not [secret for secret in ("hunter2", "0123abcd", "ken)", "t/ken") if secret in told]


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    (tmp_path / "served").mkdir()
    rank_trace(0).write(tmp_path / "served" / "rank0.json")

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *words: object) -> None:
            """Nothing."""

    any_certificate = {"ssl": False}
    monkeypatch.setitem(pytest.importorskip("fsspec").config.conf, "https", any_certificate)
    monkeypatch.setenv("FSSPEC_HTTPS", json.dumps(any_certificate))  # of worker processes
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "served"))) as server:
        server.socket = own_certificate(tmp_path).wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://me:hunter2@127.0.0.1:{server.server_port}"
        server.shutdown()


def own_certificate(folder: Path) -> ssl.SSLContext:
    """What a server speaks TLS with: a certificate that it signed itself."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    pem = serialization.Encoding.PEM
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.sign(key, hashes.SHA256()).public_bytes(pem)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def test_a_signed_url_is_read_and_not_kept(address: str, tmp_path: Path) -> None:
    for _ in range(2):  # the second from what the first kept
        document = analyze_ranks(
            sources([f"{address}/rank0.json?X-Amz-Signature=0123abcd"]), workers=1, resume=tmp_path / "rows"
        )
        assert document.rows[0].error is None
    assert document.resumed == 1
    assert (document.rows[0].rank, document.rows[0].name) == (0, "rank0.json?X-Amz-Signature=…")
    (kept,) = (tmp_path / "rows").iterdir()
    for held in (msgspec.json.encode(document), kept.read_bytes()):
        assert b"hunter2" not in held
        assert b"0123abcd" not in held


def test_one_that_is_not_there_is_told_without_them(address: str) -> None:
    with pytest.raises(UnreadableInput) as told:
        analyze_ranks(sources([f"{address}/rank1.json?X-Amz-Signature=0123abcd"]), workers=1)
    assert "hunter2" not in str(told.value)
    assert "0123abcd" not in str(told.value)
