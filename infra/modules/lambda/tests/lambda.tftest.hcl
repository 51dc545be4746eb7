# The second way to run workers.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mocked" }
  }
  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-central-1:123456789012:function:answer" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/aws/lambda/answer" }
  }
}

variables {
  name               = "answer"
  image              = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/turnstile@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  queue              = "turns"
  queues             = { turns = { arn = "arn:aws:sqs:eu-central-1:123456789012:turns", dlq_arn = "arn:aws:sqs:eu-central-1:123456789012:turns-dlq" } }
  visibility_seconds = 1800
  subnet_ids         = ["subnet-0123456789abcdef0"]
  security_group_ids = ["sg-0123456789abcdef0"]
}

run "an_event_source_that_answers_message_by_message" {
  assert {
    condition     = aws_lambda_event_source_mapping.queue.function_response_types == toset(["ReportBatchItemFailures"])
    error_message = "A message that failed must not bring back its neighbours."
  }

  assert {
    condition = (
      aws_lambda_function.worker.reserved_concurrent_executions == 20
      && aws_lambda_event_source_mapping.queue.scaling_config[0].maximum_concurrency == 18
    )
    error_message = "The event source stays below the reserve."
  }

  assert {
    condition     = aws_lambda_function.worker.image_config[0].command == tolist(["turnstile.worker.aws_lambda.lambda_handler.handle"])
    error_message = "The handler is the product's."
  }

  assert {
    condition     = aws_lambda_function.worker.image_config[0].entry_point == tolist(["/opt/turnstile/bin/python", "-m", "awslambdaric"])
    error_message = "What runs is Lambda's runtime, with the image's packages, and not the command line of the image."
  }

  assert {
    condition = toset(flatten([
      for one in jsondecode(output.policy).Statement : one.Action if one.Effect == "Allow" && contains(one.Resource, "*")
      ])) == toset([
      "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
      "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
    ])
    error_message = "Only what AWS offers no resource for is allowed on all."
  }
}

run "secrets_that_the_function_reads_itself" {
  variables {
    secrets = { DATABASE_URL = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:database-AbCdEf" }
  }

  assert {
    condition = (
      aws_lambda_function.worker.environment[0].variables["TURNSTILE_SECRETS"] == jsonencode(var.secrets)
      && jsonencode([for one in jsondecode(output.policy).Statement : one.Resource if contains(one.Action, "secretsmanager:GetSecretValue")]) == jsonencode([values(var.secrets)])
    )
    error_message = "Its environment says where they are, and it may read these and no others."
  }

  assert {
    condition     = length([for one in jsondecode(output.policy).Statement : one if contains(one.Action, "kms:Decrypt")]) == 0
    error_message = "AWS's own key needs no permission."
  }
}

run "sealed_contents" {
  variables {
    sealing_kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000001"
  }

  assert {
    condition = jsonencode([for one in jsondecode(output.policy).Statement : [one.Resource, one.Condition] if contains(one.Action, "kms:Decrypt")]) == jsonencode([
      [[var.sealing_kms_key_arn], { StringLike = { "kms:EncryptionContext:turnstile" = "*" } }]
    ])
    error_message = "A worker opens the keys of contents, and nothing else that the key has sealed."
  }
}

run "secrets_under_a_key_of_the_customer" {
  variables {
    secrets             = { DATABASE_URL = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:database-AbCdEf" }
    secrets_kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
  }

  assert {
    condition = jsonencode([for one in jsondecode(output.policy).Statement : [one.Action, one.Resource] if contains(one.Action, "kms:Decrypt")]) == jsonencode([
      [["kms:Decrypt"], [var.secrets_kms_key_arn]]
    ])
    error_message = "Whoever reads a secret decrypts it."
  }
}

run "a_visibility_timeout_that_is_too_short" {
  command = plan

  variables {
    visibility_seconds = 60
  }

  expect_failures = [var.timeout_seconds]
}

run "a_visibility_timeout_that_aws_would_have_longer" {
  command = plan

  variables {
    visibility_seconds = 600
  }

  expect_failures = [check.six_times]
}

run "a_source_that_outruns_the_reserve" {
  command = plan

  variables {
    maximum_concurrency = 30
  }

  expect_failures = [var.maximum_concurrency]
}
