"""What the doctor makes of the settings and of a queue's attributes."""

import json

import pytest

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.ops.doctor.look import judge_policy, make_terms


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        (None, []),
        ({"deadLetterTargetArn": "arn:dlq", "maxReceiveCount": "1000"}, []),
        ({"deadLetterTargetArn": "arn:other", "maxReceiveCount": 1000}, ["it names arn:other"]),
        ({"deadLetterTargetArn": "arn:dlq", "maxReceiveCount": 5}, ["after 5 receives"]),
        ({"deadLetterTargetArn": "arn:other", "maxReceiveCount": "5"}, ["after 5 receives", "it names arn:other"]),
    ],
)
def test_a_redrive_policy_is_a_backstop_to_the_declared_dlq(policy: dict[str, str] | None, wrong: list[str]) -> None:
    details = judge_policy({} if policy is None else {"RedrivePolicy": json.dumps(policy)}, {"QueueArn": "arn:dlq"})

    assert len(details) == bool(wrong)
    assert all(text in details[0] for text in wrong)


def test_something_is_late_only_after_what_a_healthy_system_takes() -> None:
    settings = Settings(queues=(QueueSettings(name="turns"),))

    terms = make_terms(settings)

    assert terms["past_lease"] > settings.lease_seconds + settings.takeover_resend_seconds
    assert terms["overdue"] > settings.relay_stamp_seconds + settings.relay_tick_seconds
    assert terms["seen"] > settings.lease_seconds
