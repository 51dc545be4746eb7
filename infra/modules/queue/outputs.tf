output "name" {
  description = "The queue's name in Turnstile."
  value       = var.name
}

output "declaration" {
  description = "The queue as one entry of TURNSTILE_QUEUES: what the worker's settings must agree with, from the same source."
  value = {
    name                = var.name
    purpose             = var.purpose
    owner               = var.owner
    sqs                 = aws_sqs_queue.main.url
    dlq                 = aws_sqs_queue.dlq.url
    visibility_seconds  = var.visibility_seconds
    max_attempts        = var.max_attempts
    timeout_seconds     = var.timeout_seconds
    max_timeout_seconds = var.max_timeout_seconds
    expires_in_seconds  = var.expires_in_seconds
    on_failure          = var.on_failure
  }
}

output "lease_seconds" {
  description = "TURNSTILE_LEASE_SECONDS that the visibility timeout was checked against."
  value       = var.lease_seconds
}

output "access" {
  description = "What roles are made from: the ARNs, and the key if there is one."
  value = {
    arn         = aws_sqs_queue.main.arn
    dlq_arn     = aws_sqs_queue.dlq.arn
    kms_key_arn = var.kms_key_arn
  }
}

output "sqs_name" {
  description = "Name in SQS, the dimension of its metrics."
  value       = aws_sqs_queue.main.name
}

output "dlq_name" {
  description = "Name of the dead-letter queue in SQS."
  value       = aws_sqs_queue.dlq.name
}

output "arn" {
  description = "ARN of the queue."
  value       = aws_sqs_queue.main.arn
}
