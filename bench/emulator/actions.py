"""The actions of the JSON protocol: a request's fields in, an answer's body out."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.emulator.queue import Poll, Queue

ARN = "arn:aws:sqs:us-east-1:000000000000"
NO_QUEUE = "com.amazonaws.sqs#QueueDoesNotExist"
NO_QUEUE_IN_QUERY = "AWS.SimpleQueueService.NonExistentQueue;Sender"
"""How the older protocol called it: botocore goes by this header."""

Fields = dict[str, Any]


class RefusedError(Exception):
    def __init__(self, code: str, message: str, query_code: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.query_code = query_code


@dataclass(frozen=True, slots=True)
class LongPoll:
    """A receive that found nothing and waits. Its answer is an empty one after `seconds`, unless something comes."""

    queue: Queue
    poll: Poll
    seconds: float


class Sqs:
    """All queues. `clock` is the wall clock."""

    def __init__(self, address: str, clock: Callable[[], float]) -> None:
        self.queues: dict[str, Queue] = {}
        self._address = address
        self._clock = clock

    def act(self, action: str, fields: Fields, answer: Callable[[bytes], None]) -> bytes | LongPoll:
        """The body of the answer, or a poll that `answer` is called for. Raises RefusedError."""
        if action == "ReceiveMessage":
            return self._receive(fields, answer)
        return json.dumps(self._act_at_once(action, fields)).encode()

    def _act_at_once(self, action: str, fields: Fields) -> Fields:
        match action:
            case "CreateQueue":
                return self._create(fields)
            case "GetQueueUrl":
                return {"QueueUrl": self._find(fields["QueueName"]).url}
            case "ListQueues":
                prefix = fields.get("QueueNamePrefix") or ""
                return {"QueueUrls": [queue.url for name, queue in self.queues.items() if name.startswith(prefix)]}
        queue = self._find(fields.get("QueueUrl", ""))
        queue.calls[action] += 1
        match action:
            case "SendMessage":
                return self._send(queue, [fields])[0]
            case "SendMessageBatch":
                sent = self._send(queue, fields["Entries"])
                return {"Successful": [{"Id": e["Id"], **s} for e, s in zip(fields["Entries"], sent, strict=True)]}
            case "DeleteMessage":
                queue.delete(fields["ReceiptHandle"])
                return {}
            case "DeleteMessageBatch":
                for entry in fields["Entries"]:
                    queue.delete(entry["ReceiptHandle"])
                return {"Successful": [{"Id": entry["Id"]} for entry in fields["Entries"]], "Failed": []}
            case "ChangeMessageVisibility":
                if not self._change(queue, fields):
                    raise RefusedError("com.amazonaws.sqs#MessageNotInflight", "the message is not in flight")
                return {}
            case "ChangeMessageVisibilityBatch":
                changed = [(entry["Id"], self._change(queue, entry)) for entry in fields["Entries"]]
                failed = [
                    {"Id": i, "Code": "MessageNotInflight", "SenderFault": True} for i, done in changed if not done
                ]
                return {"Successful": [{"Id": i} for i, done in changed if done], "Failed": failed}
            case "GetQueueAttributes":
                own = {"QueueArn": f"{ARN}:{queue.url.rpartition('/')[2]}"}
                depth = {name: str(count) for name, count in queue.depth.items()}
                known, asked = {**queue.attributes, **own, **depth}, fields.get("AttributeNames") or []
                return {"Attributes": {name: said for name, said in known.items() if name in asked or "All" in asked}}
        raise RefusedError("com.amazonaws.sqs#UnsupportedOperation", action)

    def _receive(self, fields: Fields, answer: Callable[[bytes], None]) -> bytes | LongPoll:
        queue = self._find(fields.get("QueueUrl", ""))
        now = self._clock()
        queue.calls["ReceiveMessage"] += 1
        if queue.first_receive_at is None:
            queue.first_receive_at = now
        asked = fields.get("VisibilityTimeout")
        visibility = queue.visibility_seconds if asked is None else float(asked)
        most, wait = int(fields.get("MaxNumberOfMessages") or 1), float(fields.get("WaitTimeSeconds") or 0)
        if wait and not queue.has_visible():
            poll = Poll(most, visibility, answer)
            queue.wait(poll)
            return LongPoll(queue, poll, wait)
        return queue.receive(most, visibility, now)

    def _create(self, fields: Fields) -> Fields:
        name = fields["QueueName"]
        queue = self.queues.setdefault(name, Queue(f"{self._address}/000000000000/{name}"))
        queue.attributes |= fields.get("Attributes") or {}
        return {"QueueUrl": queue.url}

    def _find(self, name_or_url: str) -> Queue:
        try:
            return self.queues[name_or_url.rpartition("/")[2]]
        except KeyError:
            raise RefusedError(NO_QUEUE, "there is no such queue", NO_QUEUE_IN_QUERY) from None

    def _send(self, queue: Queue, entries: list[Fields]) -> list[Fields]:
        now = self._clock()
        answers = []
        for entry in entries:
            message_id, digest = queue.send(entry["MessageBody"], entry.get("MessageAttributes"), now)
            answers.append({"MessageId": message_id, "MD5OfMessageBody": digest})
        queue.serve(now)
        return answers

    def _change(self, queue: Queue, fields: Fields) -> bool:
        now = self._clock()
        seconds = float(fields["VisibilityTimeout"])
        changed = queue.change_visibility(fields["ReceiptHandle"], seconds, now)
        if changed and seconds == 0:
            queue.sweep(now)
        return changed
