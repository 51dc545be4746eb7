# What the queue promises, planned and applied with a provider that only pretends.

mock_provider "aws" {
  mock_resource "aws_sqs_queue" {
    defaults = {
      arn = "arn:aws:sqs:eu-central-1:123456789012:turnstile-turns"
      url = "https://sqs.eu-central-1.amazonaws.com/123456789012/turnstile-turns"
    }
  }
}

variables {
  name    = "turns"
  purpose = "answers turns"
  owner   = "team chat"
}

run "a_standard_queue" {
  assert {
    condition     = aws_sqs_queue.dlq.message_retention_seconds == 14 * 24 * 3600 && aws_sqs_queue.main.message_retention_seconds == 14 * 24 * 3600
    error_message = "Both keep messages for 14 days."
  }

  assert {
    condition     = jsondecode(aws_sqs_queue.main.redrive_policy).maxReceiveCount == 1000
    error_message = "The RedrivePolicy is a backstop, not the way to the dead-letter queue."
  }

  assert {
    condition     = aws_sqs_queue.main.sqs_managed_sse_enabled && aws_sqs_queue.dlq.sqs_managed_sse_enabled
    error_message = "Both are encrypted at rest."
  }

  assert {
    condition     = jsondecode(aws_sqs_queue_redrive_allow_policy.dlq.redrive_allow_policy).redrivePermission == "byQueue"
    error_message = "No other queue may use this dead-letter queue."
  }

  assert {
    condition = alltrue([for policy in [aws_sqs_queue_policy.main.policy, aws_sqs_queue_policy.dlq.policy] :
      [for one in jsondecode(policy).Statement : "${one.Effect} ${one.Sid}"] == ["Deny RefusePlainText"]
    ])
    error_message = "Without endpoints the policy refuses plain text, and allows nobody anything."
  }

  assert {
    condition     = output.declaration.visibility_seconds == aws_sqs_queue.main.visibility_timeout_seconds
    error_message = "The declaration gives the worker the visibility timeout that the queue has."
  }

  assert {
    condition     = output.declaration.max_timeout_seconds == null
    error_message = "What is not asked for is left to the application."
  }

  assert {
    condition     = output.declaration.owner == "team chat" && output.declaration.purpose == "answers turns"
    error_message = "Operators see whose queue it is."
  }
}

run "a_bound_for_the_time_outs_of_clients" {
  variables {
    max_timeout_seconds = 600
  }

  assert {
    condition     = output.declaration.max_timeout_seconds == 600
    error_message = "The declaration gives the API the bound."
  }
}

run "bound_to_endpoints" {
  variables {
    vpc_endpoint_ids = ["vpce-0123456789abcdef0"]
  }

  assert {
    condition = [for one in jsondecode(aws_sqs_queue_policy.main.policy).Statement : one.Condition if one.Sid == "RefuseFromElsewhere"] == [
      { StringNotEquals = { "aws:sourceVpce" = ["vpce-0123456789abcdef0"] } }
    ]
    error_message = "Messages pass through the endpoints only."
  }

  assert {
    condition = alltrue([for one in jsondecode(aws_sqs_queue_policy.main.policy).Statement :
      one.Effect == "Deny" && (one.Sid == "RefusePlainText" || !strcontains(jsonencode(one.Action), "Attributes"))
    ])
    error_message = "Terraform stays able to manage the queue from outside."
  }
}

run "a_fifo_queue" {
  variables {
    fifo = true
  }

  assert {
    condition     = endswith(aws_sqs_queue.main.name, ".fifo") && endswith(aws_sqs_queue.dlq.name, "-dlq.fifo")
    error_message = "The DLQ of a FIFO queue is FIFO."
  }

  assert {
    condition     = aws_sqs_queue.main.content_based_deduplication == false && aws_sqs_queue.main.fifo_throughput_limit == "perMessageGroupId"
    error_message = "Wake-ups are never deduplicated by content, and groups have throughput of their own."
  }
}

run "with_a_key_of_ones_own" {
  variables {
    kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
  }

  assert {
    condition     = aws_sqs_queue.main.kms_master_key_id == var.kms_key_arn && output.access.kms_key_arn == var.kms_key_arn
    error_message = "The key is the queue's, and the roles hear of it."
  }
}

run "a_lease_longer_than_the_visibility_timeout" {
  command = plan

  variables {
    visibility_seconds = 20
  }

  expect_failures = [var.visibility_seconds]
}

run "a_heartbeat_of_more_than_half_the_visibility_timeout" {
  command = plan

  variables {
    visibility_seconds = 10
    lease_seconds      = 40
  }

  expect_failures = [var.visibility_seconds]
}

run "a_backstop_that_healthy_turns_would_reach" {
  command = plan

  variables {
    max_receive_count = 5
  }

  expect_failures = [var.max_receive_count]
}
