variable "cluster_name" {
  description = "ECS cluster. Container Insights must be on: the number of running tasks is its metric."
  type        = string
}

variable "service_name" {
  description = "ECS service of the workers of one queue."
  type        = string
}

variable "sqs_name" {
  description = "The queue they answer, by its name in SQS."
  type        = string
}

variable "backlog" {
  description = "Where the table's own backlog is: output `namespace` of module alarms, with `relay_log_groups` given there, and the queue's name in Turnstile. Null: SQS's messages."
  type = object({
    namespace = string
    queue     = string
  })
  default = null
}

variable "minimum" {
  description = "Tasks that always run. Two, so that one availability zone may go."
  type        = number
  default     = 2
}

variable "maximum" {
  description = "Tasks at most. It protects the database and the model provider; there is always one."
  type        = number
  default     = 20

  validation {
    condition     = var.maximum >= var.minimum
    error_message = "The maximum must not be below the minimum."
  }
}

variable "messages_per_task" {
  description = "Messages (or sessions with something due, and turns), waiting or in hand, that one task should have. About 70 % of TURNSTILE_CONCURRENCY keeps slots free for a burst."
  type        = number
  default     = 45
}

variable "oldest_seconds" {
  description = "When the oldest turn has waited so long, tasks are added whatever the target tracking thinks."
  type        = number
  default     = 60
}

variable "timeout_seconds" {
  description = "How long one attempt may take: `timeout_seconds` of module queue. Without `backlog` the oldest message must be older by that, because SQS counts those in hand."
  type        = number
  default     = 300
}

variable "scale_in_cooldown_seconds" {
  description = "Between two removals. A removed task drains for its grace: longer than that."
  type        = number
  default     = 300
}

variable "tags" {
  description = "Tags of the alarm and the target."
  type        = map(string)
  default     = {}
}
