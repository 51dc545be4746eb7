variable "name" {
  description = "Name of the function and its role."
  type        = string
}

variable "image" {
  description = "Container image with Turnstile, as its Dockerfile makes it, and awslambdaric (docs/runbooks/lambda.md), by digest."
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Name the image by its digest: repository@sha256:…"
  }
}

variable "handler" {
  description = "The function's handler, in the image's command."
  type        = string
  default     = "turnstile.worker.aws_lambda.lambda_handler.handle"
}

variable "queue" {
  description = "The queue that it answers: a key of `queues`."
  type        = string
}

variable "queues" {
  description = "Every declared queue by its name: output `access` of module queue. The one that it answers must not be bound to VPC endpoints."
  type = map(object({
    arn         = string
    dlq_arn     = string
    kms_key_arn = optional(string)
  }))
}

variable "visibility_seconds" {
  description = "Visibility timeout of the queue it answers: output `declaration` of module queue."
  type        = number
}

variable "timeout_seconds" {
  description = "How long one invocation may take; a turn must fit into what is left of it."
  type        = number
  default     = 300

  validation {
    condition     = var.timeout_seconds <= 900
    error_message = "Lambda ends after 15 minutes. What takes longer belongs on ECS."
  }

  validation {
    condition     = var.visibility_seconds >= var.timeout_seconds
    error_message = "The queue's visibility timeout is shorter than the function's time-out, which AWS refuses. Make visibility_seconds of the queue longer."
  }
}

variable "memory_mib" {
  description = "Memory of the function."
  type        = number
  default     = 1024
}

variable "batch_size" {
  description = "Messages of one invocation."
  type        = number
  default     = 10

  validation {
    condition     = var.batch_size >= 1 && var.batch_size <= 10
    error_message = "1 to 10: larger batches wait for a window, and a turn should not."
  }
}

variable "reserved_concurrency" {
  description = "Invocations at a time that are kept for this function, and its limit: it protects the database."
  type        = number
  default     = 20
}

variable "maximum_concurrency" {
  description = "Invocations at a time that the event source starts, 2 to 1,000. Below the reserve, or SQS would be throttled and messages would spend receives for nothing."
  type        = number
  default     = 18

  validation {
    condition     = var.maximum_concurrency >= 2 && var.maximum_concurrency <= min(1000, var.reserved_concurrency)
    error_message = "2 to 1,000, and not above the reserved concurrency."
  }
}

variable "environment" {
  description = "Environment, nothing secret. TURNSTILE_QUEUES is needed."
  type        = map(string)
  default     = {}
}

variable "secrets" {
  description = "Settings that the function reads from Secrets Manager at its start, because Lambda injects none: variable => ARN of the secret."
  type        = map(string)
  default     = {}
}

variable "secrets_kms_key_arn" {
  description = "Customer-managed key of the secrets, if there is one."
  type        = string
  default     = null
}

variable "sealing_kms_key_arn" {
  description = "Key of KMS that has sealed the keys of contents (docs/sealing.md), if there is one."
  type        = string
  default     = null
}

variable "subnet_ids" {
  description = "Private subnets, where Postgres and Redis are reached."
  type        = list(string)
}

variable "security_group_ids" {
  description = "Security groups of the function."
  type        = list(string)
}

variable "log_retention_days" {
  description = "Days that the log is kept."
  type        = number
  default     = 30
}

variable "permissions_boundary" {
  description = "ARN of a permissions boundary for the role."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything here."
  type        = map(string)
  default     = {}
}
