variable "name" {
  description = "Name of the service, its task definition and its log group."
  type        = string
}

variable "cluster_arn" {
  description = "ECS cluster."
  type        = string
}

variable "image" {
  description = "Image of Turnstile, by digest: a tag may move under a running deployment."
  type        = string

  validation {
    condition     = can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Name the image by its digest: repository@sha256:…"
  }
}

variable "repository_arn" {
  description = "ECR repository that the image is pulled from."
  type        = string
}

variable "one_off" {
  description = "Only a task definition, for a command that ends (`migrate`): as a service it would be started again for ever."
  type        = bool
  default     = false
}

variable "command" {
  description = "Arguments of `turnstile`: [\"api\"], [\"worker\", \"--queue\", \"turns\"], [\"relay\"]."
  type        = list(string)
}

variable "environment" {
  description = "Environment, nothing secret."
  type        = map(string)
  default     = {}
}

variable "secrets" {
  description = "Environment from Secrets Manager: variable => ARN of the secret. The values never enter Terraform's state."
  type        = map(string)
}

variable "secrets_kms_key_arn" {
  description = "Customer-managed key of the secrets, if there is one."
  type        = string
  default     = null
}

variable "task_role_arn" {
  description = "What the process itself may do: module roles. Null: nothing, which is enough for `migrate`."
  type        = string
  default     = null
}

variable "cpu" {
  description = "CPU units of a task."
  type        = number
  default     = 1024
}

variable "memory" {
  description = "MiB of a task."
  type        = number
  default     = 2048
}

variable "architecture" {
  description = "X86_64 or ARM64, as the image was built."
  type        = string
  default     = "X86_64"
}

variable "desired_count" {
  description = "Tasks at the first deployment; afterwards the number belongs to autoscaling or to an operator, and Terraform leaves it alone."
  type        = number
  default     = 2
}

variable "subnet_ids" {
  description = "Private subnets, in at least two availability zones."
  type        = list(string)
}

variable "security_group_ids" {
  description = "Security groups of the tasks."
  type        = list(string)
}

variable "port" {
  description = "Where it answers /healthz: TURNSTILE_API_PORT of the API, TURNSTILE_HEALTH_PORT of a worker. Null for the relay, which has none."
  type        = number
  default     = null
}

variable "metrics_port" {
  description = "TURNSTILE_METRICS_PORT: where it serves its metrics for Prometheus, without a key. Null: it serves none. Who reaches it is for `security_group_ids` to say."
  type        = number
  default     = null

  validation {
    condition     = var.metrics_port == null || var.metrics_port != var.port
    error_message = "The metrics need a port of their own."
  }
}

variable "start_seconds" {
  description = "How long a start may take before failed checks count. A worker answers none until its handler is loaded."
  type        = number
  default     = 30

  validation {
    condition     = var.start_seconds >= 0 && var.start_seconds <= 300
    error_message = "ECS waits 300 seconds at most: load what takes longer behind the first turn."
  }
}

variable "target_group_arn" {
  description = "Load balancer target group of the API."
  type        = string
  default     = null
}

variable "grace_seconds" {
  description = "TURNSTILE_GRACE_SECONDS: how long turns may run on after SIGTERM."
  type        = number
  default     = 90
}

variable "stop_timeout" {
  description = "Seconds from SIGTERM to SIGKILL; Fargate takes 120 at most."
  type        = number
  default     = 120

  validation {
    condition     = var.stop_timeout <= 120
    error_message = "Fargate kills after 120 seconds at the latest."
  }

  validation {
    condition     = var.stop_timeout >= var.grace_seconds + 10
    error_message = "After the grace, handing back takes up to 2 s, and closing what is open some more: leave 10."
  }
}

variable "log_retention_days" {
  description = "Days that the log is kept."
  type        = number
  default     = 30
}

variable "log_kms_key_arn" {
  description = "Customer-managed key of the log group."
  type        = string
  default     = null
}

variable "permissions_boundary" {
  description = "ARN of a permissions boundary for the execution role."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything here."
  type        = map(string)
  default     = {}
}
