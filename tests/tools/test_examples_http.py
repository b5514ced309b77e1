"""The tools of the CYCOD document that talk to servers, against one on loopback."""

from __future__ import annotations

import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs

import pytest

from tests.support.examples import Examples
from tests.support.tool_files import EXAMPLES, load

TOOLS = "002/tools/"


@pytest.fixture
def examples(opta, tmp_path):
    return Examples(opta, tmp_path)


@pytest.fixture
def server():
    """A server on loopback that keeps what it is sent and answers `Hola mundo`."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.server.requests.append((self.command, dict(self.headers), body.decode()))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"Hola mundo\n")

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.requests = []
        httpd.url = f"http://127.0.0.1:{httpd.server_port}/"
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield httpd
        httpd.shutdown()
        thread.join()


@pytest.fixture
def curl():
    found = shutil.which("curl")
    if found is None:
        pytest.skip("there is no curl to talk to a server with")
    return found


@pytest.mark.row("C298")
def test_http_request_against_a_server(examples, server, curl):
    name = examples.put(TOOLS + "http-request.yaml")
    assert examples.run(name, URL=server.url).out.endswith("Hola mundo\n")
    header = "-H 'Content-Type: application/json'"
    assert examples.run(name, URL=server.url, METHOD="DELETE", HEADERS=header).code == 0
    refused = examples.run(name, URL=server.url, METHOD="TRACE")
    assert (refused.code, refused.out) == (1, "")
    (get, plain, _), (delete, typed, _) = server.requests
    assert (get, delete) == ("GET", "DELETE")
    assert "Content-Type" not in plain
    assert set(typed.items()) - set(plain.items()) == {("Content-Type", "application/json")}


@pytest.mark.row("C298")
def test_http_request_hands_curl_no_word_too_many(examples):
    name = examples.put(TOOLS + "http-request.yaml")
    examples.stub("curl")
    for headers, words in {
        "": "", "-H 'Content-Type: application/json'": "<-H> <Content-Type: application/json> ",
        "-o /path ; id": "<-o> </path> <;> <id> ",
    }.items():  # fmt: skip
        ran = examples.run(name, URL="u", HEADERS=headers)
        assert ran.out == f"curl <-X> <GET> {words}<u>\n"
        assert ("{HEADERS} begins with a dash" in ran.err) is bool(headers)


@pytest.mark.row("C379")
def test_translate_text_sends_a_form(examples, opta, server, curl):
    name = examples.put(TOOLS + "translate-text.yaml")
    there = f'case $word in https:*) word={server.url} ;; esac; set -- "$@" "$word"; shift'
    examples.stub("curl", f'for word; do {there}; done; exec {curl} "$@"', shown=False)
    assert examples.run(name, TEXT="Hello world", TARGET_LANG="es").out == "Hola mundo\n"
    assert opta(f"tool test {name} --yes").code == 0
    form = {"text": ["Hello world"], "source": ["en"], "target": ["es"]}
    assert [(way, parse_qs(body)) for way, _, body in server.requests] == [("POST", form)] * 2
    examples.run(name, TEXT="a&target=xx", TARGET_LANG="es")
    assert parse_qs(server.requests[2][2])["target"] == ["xx", "es"]
    refused = examples.run(name, TEXT="a", TARGET_LANG="xx")
    assert (refused.code, refused.out, len(server.requests)) == (1, "", 3)


@pytest.mark.row("C379")
def test_translate_text_tells_the_model_languages_default_and_examples():
    tool, _ = load((EXAMPLES / TOOLS / "translate-text.yaml").read_bytes())
    languages = ["en", "es", "fr", "de", "it", "pt", "ru", "zh"]
    properties = tool.parameters["properties"]
    assert properties["TARGET_LANG"]["enum"] == properties["SOURCE_LANG"]["enum"] == languages
    assert properties["SOURCE_LANG"]["default"] == "en"
    assert properties["TEXT"]["examples"] == ["Hello world", "How are you?"]
    assert tool.limits.timeout_ms == 10000
