# A queue and its dead-letter queue. The application counts attempts and sends the dead letters itself; the
# RedrivePolicy is the backstop only.

locals {
  suffix   = var.fifo ? ".fifo" : ""
  sqs_name = "${var.prefix}${var.name}${local.suffix}"
  dlq_name = "${var.prefix}${var.name}-dlq${local.suffix}"

  fourteen_days = 1209600

  # What touches messages. Attributes and policy are left out: whoever runs Terraform is not inside the VPC.
  message_actions = [
    "sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:PurgeQueue",
  ]

  refuse_plain_text = {
    Sid       = "RefusePlainText"
    Effect    = "Deny"
    Principal = { AWS = "*" }
    Action    = "sqs:*"
    Condition = { Bool = { "aws:SecureTransport" = "false" } }
  }

  # A Lambda event source polls from outside the VPC: a queue that it reads cannot have this.
  refuse_from_elsewhere = [for endpoints in [var.vpc_endpoint_ids] : {
    Sid       = "RefuseFromElsewhere"
    Effect    = "Deny"
    Principal = { AWS = "*" }
    Action    = local.message_actions
    Condition = { StringNotEquals = { "aws:sourceVpce" = endpoints } }
  } if length(endpoints) > 0]

  policies = {
    for key, queue in { main = aws_sqs_queue.main, dlq = aws_sqs_queue.dlq } : key => jsonencode({
      Version = "2012-10-17"
      Statement = [
        for statement in concat([jsonencode(local.refuse_plain_text)], [for each in local.refuse_from_elsewhere : jsonencode(each)]) :
        merge(jsondecode(statement), { Resource = queue.arn })
      ]
    })
  }
}

resource "aws_sqs_queue" "dlq" {
  name                      = local.dlq_name
  fifo_queue                = var.fifo
  message_retention_seconds = local.fourteen_days
  # Somebody looks at a dead letter for as long as a worker would hold it.
  visibility_timeout_seconds = ceil(var.visibility_seconds)
  receive_wait_time_seconds  = 20
  sqs_managed_sse_enabled    = var.kms_key_arn == null ? true : null
  kms_master_key_id          = var.kms_key_arn
  tags                       = var.tags
}

resource "aws_sqs_queue" "main" {
  name                       = local.sqs_name
  fifo_queue                 = var.fifo
  message_retention_seconds  = local.fourteen_days
  visibility_timeout_seconds = ceil(var.visibility_seconds)
  receive_wait_time_seconds  = 20
  sqs_managed_sse_enabled    = var.kms_key_arn == null ? true : null
  kms_master_key_id          = var.kms_key_arn
  # Deduplication is the table's: every send has an id of its own, and content would make wake-ups of a session equal.
  content_based_deduplication = var.fifo ? false : null
  deduplication_scope         = var.fifo ? "messageGroup" : null
  fifo_throughput_limit       = var.fifo ? "perMessageGroupId" : null
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dlq.arn
    maxReceiveCount     = var.max_receive_count
  })
  tags = var.tags
}

resource "aws_sqs_queue_redrive_allow_policy" "dlq" {
  queue_url = aws_sqs_queue.dlq.id
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.main.arn]
  })
}

resource "aws_sqs_queue_policy" "main" {
  queue_url = aws_sqs_queue.main.id
  policy    = local.policies["main"]
}

resource "aws_sqs_queue_policy" "dlq" {
  queue_url = aws_sqs_queue.dlq.id
  policy    = local.policies["dlq"]
}
