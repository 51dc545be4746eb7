# The second way to run workers: a function behind an SQS event source. The function answers for each message by itself, so a
# batch of which one message failed brings back that one only.

locals {
  own  = var.queues[var.queue]
  keys = distinct([for queue in values(var.queues) : queue.kms_key_arn if queue.kms_key_arn != null])

  statements = concat(
    [for one in [
      {
        Sid    = "ConsumeItsQueue"
        Effect = "Allow"
        # GetQueueAttributes is the event source's, which polls with this role; ChangeMessageVisibility the handler's.
        Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
        Resource = [local.own.arn]
      },
      { Sid = "SendWakeUps", Effect = "Allow", Action = ["sqs:SendMessage"], Resource = [for queue in values(var.queues) : queue.arn] },
      { Sid = "DeadLetterItsMessages", Effect = "Allow", Action = ["sqs:SendMessage"], Resource = [local.own.dlq_arn] },
      {
        Sid      = "WriteLog"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = ["${aws_cloudwatch_log_group.log.arn}:*"]
      },
      {
        Sid    = "StandInTheVpc"
        Effect = "Allow"
        Action = [
          "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
          "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses",
        ]
        # As in AWS's own policy for it: describing can be narrowed to nothing, and Lambda names the interfaces itself.
        Resource = ["*"]
      },
      # The service makes the function's interfaces with this role; the function's own code may not.
      {
        Sid       = "NotFromTheCode"
        Effect    = "Deny"
        Action    = ["ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"]
        Resource  = ["*"]
        Condition = { ArnEquals = { "lambda:SourceFunctionArn" = local.function_arn } }
      },
    ] : jsonencode(one)],
    length(var.secrets) == 0 ? [] : [jsonencode({
      Sid = "ReadSecrets", Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = values(var.secrets)
    })],
    var.secrets_kms_key_arn == null ? [] : [jsonencode({
      Sid = "DecryptSecrets", Effect = "Allow", Action = ["kms:Decrypt"], Resource = [var.secrets_kms_key_arn]
    })],
    var.sealing_kms_key_arn == null ? [] : [jsonencode({
      Sid       = "OpenContents", Effect = "Allow", Action = ["kms:Decrypt"], Resource = [var.sealing_kms_key_arn]
      Condition = { StringLike = { "kms:EncryptionContext:turnstile" = "*" } }
    })],
    length(local.keys) == 0 ? [] : [jsonencode({
      Sid = "UseTheQueuesKeys", Effect = "Allow", Action = ["kms:GenerateDataKey", "kms:Decrypt"], Resource = local.keys
    })],
  )

  # Put together, because the function needs the role that says this.
  arn_parts    = split(":", aws_iam_role.function.arn)
  function_arn = "arn:${local.arn_parts[1]}:lambda:${data.aws_region.here.name}:${local.arn_parts[4]}:function:${var.name}"
}

data "aws_region" "here" {}

# AWS recommends it for functions whose second run does harm. Here a message that comes again is a hint that comes again, and the
# claim in Postgres lets one of them work (ADR 0027): so a plan warns and goes on.
check "six_times" {
  assert {
    condition     = var.visibility_seconds >= 6 * var.timeout_seconds
    error_message = "The queue's visibility timeout is less than six times the function's time-out, which AWS recommends: a throttled batch is received again before Lambda has given up its retries, which costs calls and no turn. To follow AWS, make visibility_seconds of the queue longer."
  }
}

resource "aws_cloudwatch_log_group" "log" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = var.log_retention_days
  tags              = var.tags
}

resource "aws_iam_role" "function" {
  name                 = "${var.name}-lambda"
  permissions_boundary = var.permissions_boundary
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "lambda.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "function" {
  name   = "turnstile"
  role   = aws_iam_role.function.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [for one in local.statements : jsondecode(one)] })
}

resource "aws_lambda_function" "worker" {
  function_name                  = var.name
  role                           = aws_iam_role.function.arn
  package_type                   = "Image"
  image_uri                      = var.image
  memory_size                    = var.memory_mib
  timeout                        = var.timeout_seconds
  reserved_concurrent_executions = var.reserved_concurrency
  tags                           = var.tags

  # The image's own entry point is `turnstile`, which knows nothing of Lambda's runtime and would end at once.
  image_config {
    entry_point = ["/opt/turnstile/bin/python", "-m", "awslambdaric"]
    command     = [var.handler]
  }

  environment {
    # A function has no later: what it leaves is the relay service's.
    variables = merge(
      { TURNSTILE_LOG_FORMAT = "json", TURNSTILE_QUEUE = var.queue, TURNSTILE_RELAY = "false" },
      length(var.secrets) == 0 ? {} : { TURNSTILE_SECRETS = jsonencode(var.secrets) },
      var.environment,
    )
  }

  vpc_config {
    subnet_ids         = var.subnet_ids
    security_group_ids = var.security_group_ids
  }

  depends_on = [aws_iam_role_policy.function, aws_cloudwatch_log_group.log]
}

resource "aws_lambda_event_source_mapping" "queue" {
  event_source_arn        = local.own.arn
  function_name           = aws_lambda_function.worker.arn
  batch_size              = var.batch_size
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = var.tags

  scaling_config {
    maximum_concurrency = var.maximum_concurrency
  }
}
