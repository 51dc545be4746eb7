# Task roles, one for each kind of process, each with the calls that this process makes and no other (ADR 0026). Queues are
# declared by URL, so nobody needs sqs:GetQueueUrl. Nobody may purge, delete or reconfigure a queue.

locals {
  mains = [for queue in values(var.queues) : queue.arn]
  dlqs  = [for queue in values(var.queues) : queue.dlq_arn]
  keys  = distinct([for queue in values(var.queues) : queue.kms_key_arn if queue.kms_key_arn != null])

  # Producers need both: SQS asks for a data key, and for its decryption when it reuses one.
  produce_with_keys = [for keys in [local.keys] : {
    Sid      = "ProduceEncrypted"
    Effect   = "Allow"
    Action   = ["kms:GenerateDataKey", "kms:Decrypt"]
    Resource = keys
  } if length(keys) > 0]

  # Who opens contents: the API and the workers. Each asks at its start for the keys that the file of keys names (docs/sealing.md).
  open_contents = [for key in [var.sealing_kms_key_arn] : {
    Sid       = "OpenContents"
    Effect    = "Allow"
    Action    = ["kms:Decrypt"]
    Resource  = [key]
    Condition = { StringLike = { "kms:EncryptionContext:turnstile" = "*" } }
  } if key != null]

  send_wake_ups = {
    Sid      = "SendWakeUps"
    Effect   = "Allow"
    Action   = ["sqs:SendMessage"]
    Resource = local.mains
  }

  statements = merge(
    {
      api = [local.send_wake_ups]

      relay = [
        local.send_wake_ups,
        { Sid = "SendDeadLetters", Effect = "Allow", Action = ["sqs:SendMessage"], Resource = local.dlqs },
        # For the metric turnstile_dlq_messages.
        { Sid = "CountDeadLetters", Effect = "Allow", Action = ["sqs:GetQueueAttributes"], Resource = local.dlqs },
      ]

      # For `turnstile redrive`, `dlq` and `doctor`, run as tasks of their own.
      operator = [
        local.send_wake_ups,
        {
          Sid    = "WorkOnDeadLetters"
          Effect = "Allow"
          Action = [
            "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility",
          ]
          Resource = local.dlqs
        },
        {
          Sid      = "LookAtQueues"
          Effect   = "Allow"
          Action   = ["sqs:GetQueueAttributes"]
          Resource = concat(local.mains, local.dlqs)
        },
      ]
    },
    {
      for name, queue in var.queues : "worker-${name}" => [
        {
          Sid      = "ConsumeItsQueue"
          Effect   = "Allow"
          Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"]
          Resource = [queue.arn]
        },
        # A handler's children may belong to any queue.
        local.send_wake_ups,
        { Sid = "DeadLetterItsMessages", Effect = "Allow", Action = ["sqs:SendMessage"], Resource = [queue.dlq_arn] },
        {
          Sid       = "ProtectItsTasks"
          Effect    = "Allow"
          Action    = ["ecs:GetTaskProtection", "ecs:UpdateTaskProtection"]
          Resource  = ["${replace(var.cluster_arn, ":cluster/", ":task/")}/*"]
          Condition = { ArnEquals = { "ecs:cluster" = var.cluster_arn } }
        },
      ]
    },
  )

  policies = {
    for role, statements in local.statements : role => jsonencode({
      Version = "2012-10-17"
      Statement = [for each in concat(
        [for one in statements : jsonencode(one)],
        [for one in local.produce_with_keys : jsonencode(one)],
        [for one in local.open_contents : jsonencode(one) if !contains(["relay", "operator"], role)],
      ) : jsondecode(each)]
    })
  }
}

resource "aws_iam_role" "task" {
  for_each = local.policies

  name                 = "${var.name}-${each.key}"
  permissions_boundary = var.permissions_boundary
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "task" {
  for_each = local.policies

  name   = "turnstile"
  role   = aws_iam_role.task[each.key].id
  policy = each.value
}
