# Who may do what, read from the policies as they would be given to IAM.

mock_provider "aws" {}

variables {
  name        = "test"
  cluster_arn = "arn:aws:ecs:eu-central-1:123456789012:cluster/test"
  queues = {
    turns  = { arn = "arn:aws:sqs:eu-central-1:123456789012:turns", dlq_arn = "arn:aws:sqs:eu-central-1:123456789012:turns-dlq" }
    strict = { arn = "arn:aws:sqs:eu-central-1:123456789012:strict.fifo", dlq_arn = "arn:aws:sqs:eu-central-1:123456789012:strict-dlq.fifo" }
  }
}

run "least_privilege" {
  assert {
    condition     = toset(keys(output.policies)) == toset(["api", "relay", "operator", "worker-turns", "worker-strict"])
    error_message = "One role for each kind of process, and one for the workers of each queue."
  }

  assert {
    condition     = toset(flatten([for one in jsondecode(output.policies["api"]).Statement : one.Action])) == toset(["sqs:SendMessage"])
    error_message = "The API sends, and nothing else."
  }

  assert {
    condition = toset(flatten([for one in jsondecode(output.policies["relay"]).Statement : one.Action])) == toset([
      "sqs:SendMessage", "sqs:GetQueueAttributes"
    ])
    error_message = "The relay sends and counts dead letters, and nothing else."
  }

  assert {
    condition = toset(flatten([for one in jsondecode(output.policies["worker-turns"]).Statement : one.Resource if contains(one.Action, "sqs:ReceiveMessage")])) == toset([
      "arn:aws:sqs:eu-central-1:123456789012:turns"
    ])
    error_message = "A worker receives from its own queue."
  }

  assert {
    condition = !contains(
      flatten([for one in jsondecode(output.policies["worker-turns"]).Statement : one.Resource]),
      "arn:aws:sqs:eu-central-1:123456789012:strict-dlq.fifo",
    )
    error_message = "A worker has no business on another queue's DLQ."
  }

  assert {
    condition = !anytrue([
      for one in jsondecode(output.policies["operator"]).Statement :
      contains(one.Action, "sqs:ReceiveMessage") && contains(one.Resource, "arn:aws:sqs:eu-central-1:123456789012:turns")
    ])
    error_message = "An operator works on the DLQs, not in the workers' place."
  }

  assert {
    condition = length(setintersection(
      toset(flatten([for policy in values(output.policies) : [for one in jsondecode(policy).Statement : one.Action]])),
      toset(["sqs:*", "*", "sqs:PurgeQueue", "sqs:DeleteQueue", "sqs:SetQueueAttributes", "sqs:AddPermission", "sqs:RemovePermission"]),
    )) == 0
    error_message = "Nobody may purge, delete or reconfigure a queue."
  }

  assert {
    condition     = !anytrue(flatten([for policy in values(output.policies) : [for one in jsondecode(policy).Statement : [for resource in one.Resource : resource == "*"]]]))
    error_message = "Every statement names its resources."
  }

  assert {
    condition = [
      for one in jsondecode(output.policies["worker-turns"]).Statement : one.Resource if one.Sid == "ProtectItsTasks"
    ] == [["arn:aws:ecs:eu-central-1:123456789012:task/test/*"]]
    error_message = "A worker protects tasks of its own cluster only."
  }

  assert {
    condition     = !anytrue([for policy in values(output.policies) : strcontains(policy, "kms:")])
    error_message = "Without a customer-managed key nobody needs KMS."
  }

  assert {
    condition     = alltrue([for role in values(aws_iam_role.task) : jsondecode(role.assume_role_policy).Statement[0].Principal == { Service = "ecs-tasks.amazonaws.com" }])
    error_message = "Only tasks take these roles."
  }
}

run "sealed_contents" {
  variables {
    sealing_kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000001"
  }

  assert {
    condition     = toset([for role, policy in output.policies : role if strcontains(policy, "kms:")]) == toset(["api", "worker-turns", "worker-strict"])
    error_message = "The API and the workers open contents. Relays and operators do without."
  }

  assert {
    condition = jsonencode([for one in jsondecode(output.policies["api"]).Statement : one if one.Sid == "OpenContents"]) == jsonencode([{
      Action    = ["kms:Decrypt"]
      Condition = { StringLike = { "kms:EncryptionContext:turnstile" = "*" } }
      Effect    = "Allow"
      Resource  = [var.sealing_kms_key_arn]
      Sid       = "OpenContents"
    }])
    error_message = "Only the keys of contents, and nothing else that the key has sealed."
  }
}

run "with_a_customer_managed_key" {
  variables {
    queues = {
      turns = {
        arn         = "arn:aws:sqs:eu-central-1:123456789012:turns"
        dlq_arn     = "arn:aws:sqs:eu-central-1:123456789012:turns-dlq"
        kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
      }
    }
  }

  assert {
    condition = alltrue([
      for policy in values(output.policies) :
      [for one in jsondecode(policy).Statement : toset(one.Action) if one.Sid == "ProduceEncrypted"] == [toset(["kms:GenerateDataKey", "kms:Decrypt"])]
    ])
    error_message = "Whoever sends to an encrypted queue needs a data key and its decryption."
  }
}
