"""Nothing that is printed or kept holds what a URL has of secrets."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.inputs.places import Places
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.model.errors import UnreadableInput
from launchscope.analysis.model.secrets import (
    is_secret,
    message_without_secrets,
    text_without_secrets,
    value_without_secrets,
    without_secrets,
)

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
        "dbpass",
        "userpass",
        "adminpwd",
        "rootpw",
        "pw",
        "db_pw",
        "sessionid",
        "accountkey",
        "encryptionkey",
        "basicauth",
        "pat",
        "GITHUB_PAT",
        "psk",
        "hf_tok",
        "otp",
        "pin",
        "salt",
        "dsn",
        "DATABASE_URL",
        "connection_string",
        "webhook_url",
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
        ("eos_token", "8"),
        ("eos_token", "[8, 9]"),
        ("eos_token", "</s>"),
        ("pad_token_id", "0"),
        ("pin_memory", "True"),
        ("pattern", "*.safetensors"),
        ("spinlock", "ticket"),
        ("bypass", "all"),
        ("base_url", "http://host"),
    ],
)
def test_names_of_none(name: str, value: str) -> None:
    assert not is_secret(name, value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://user:p/ss@host/a", "https://…@host/a"),
        ("https://user:pa?ss@host", "https://…@host"),
        ("postgres://u:p#w@h/db", "postgres://…@h/db"),
        ("//user:pw@host", "//…@host"),
        ("https://host:8080/a@b", "https://host:8080/a@b"),
        ("curl -u user:pass https://h", "curl -u user:… https://h"),
        ("curl --user=user:pass https://h", "curl --user=user:… https://h"),
        ("docker run -u 1000:1000", "docker run -u 1000:1000"),
        ("train --password hunter2 --layers 2", "train --password … --layers 2"),
        ("sh -c 'train --hf-token \"a b\" -v'", "sh -c 'train --hf-token \"…\" -v'"),
        ("train --max-new-tokens 128", "train --max-new-tokens 128"),
        ('{"api_key": "abcd efgh", "layers": 2}', '{"api_key": "…", "layers": 2}'),
        (r"{\"api_key\": \"ab, cd\", \"n\": 1}", r"{\"api_key\": \"…\", \"n\": 1}"),
        ("PASSWORD='a b c' LAYERS=2", "PASSWORD='…' LAYERS=2"),
        (r'PASSWORD="a\"b c" LAYERS=2', 'PASSWORD="…" LAYERS=2'),
        ('config="api_key=abc, layers=2"', 'config="api_key=…, layers=2"'),
        ("env=API_KEY=abc,layers=2", "env=API_KEY=…,layers=2"),
        ("Authorization: token abcd1234", "Authorization: … …"),
        ('{"Authorization": "token abcd1234", "n": 1}', '{"Authorization": "…", "n": 1}'),
        ("eos_token=8 pin_memory=True pattern=a", "eos_token=8 pin_memory=True pattern=a"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nlayers", "…\nlayers"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIE", "…"),
    ],
)
def test_a_value_that_holds_some(given: str, shown: str) -> None:
    assert value_without_secrets(given) == shown


@pytest.mark.parametrize(
    "token",
    [
        "github_pat_11ABCDEFG0abcdefghij",
        "ghp_abcdefghij0123456789",
        "xoxb-123456789012-abcdefghij",
        "AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "nvapi-abcdefghij0123456789",
        "npm_abcdefghij0123456789",
        "r8_abcdefghij0123456789",
    ],
)
def test_what_has_the_shape_of_a_token(token: str) -> None:
    assert text_without_secrets(f"got '{token}' of it") == "got '…' of it"


def test_values_take_no_more_time_than_their_length_allows() -> None:
    for part in ("a=", "//a:", "a=\"b='", "curl ", 'password:" '):
        begun = time.process_time()
        value_without_secrets(part * 20_000)
        assert time.process_time() - begun < 5


def test_hosts_stay_apart_where_urls_are_compared() -> None:
    """The second is of the host 'evil', whatever is behind its slash."""
    place = Places.of(["https://me:hunter2@host/run"])
    assert place.hold("https://…@host/run/rank0.json")
    assert not place.hold("https://evil:x/y@host/run/rank0.json")


def test_nor_does_what_a_library_says_of_it() -> None:
    said = f"403 for {SIGNED}; signature 0123abcd of me:hunter2 (hunter2), t/ken"
    told = message_without_secrets(said, SIGNED)
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
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
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
