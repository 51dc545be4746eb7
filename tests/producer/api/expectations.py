"""What answers have in common."""

from httpx import Response


def expect_problem(answer: Response, status: int, kind: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["type"] == f"/problems/{kind}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]


def expect_unavailable(answer: Response) -> None:
    assert answer.status_code == 503, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "/problems/unavailable"
    assert int(answer.headers["retry-after"]) > 0


def scrubbed(answer: Response, *ids: str) -> tuple[int, list[str], str]:
    """All that the client sees, without the ids that it sent itself."""
    text = answer.text
    for one in ids:
        text = text.replace(one, "ID")
    return answer.status_code, sorted(set(answer.headers) - {"date"}), text
