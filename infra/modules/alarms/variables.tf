variable "name" {
  description = "Prefix of alarms and topics, and part of the metrics' namespace."
  type        = string
}

variable "queues" {
  description = "The queues by their names: outputs of module queue, the log group of the queue's workers (module service), and how long one attempt may take (`timeout_seconds` of module queue)."
  type = map(object({
    sqs_name         = string
    dlq_name         = string
    worker_log_group = string
    timeout_seconds  = optional(number, 300)
  }))
}

variable "relay_log_groups" {
  description = "Log groups of whatever runs relays, which tell the backlog: the relay service's; the workers' if they run relays. Where given, their silence pages."
  type        = list(string)
  default     = []
}

variable "page_emails" {
  description = "Addresses that the paging topic is subscribed to; usually a paging service subscribes itself instead."
  type        = list(string)
  default     = []
}

variable "oldest_seconds" {
  description = "A turn may wait so long before somebody is paged. Without `relay_log_groups` a message must be older by the queue's `timeout_seconds`, because SQS counts those in hand."
  type        = number
  default     = 300
}

variable "depth" {
  description = "So many waiting messages are told, without paging. Autoscaling has its own idea of them."
  type        = number
  default     = 10000
}

variable "quiet_minutes" {
  description = "Nothing sent for so long is told: the producer is gone, or it is night. Null: never."
  type        = number
  default     = 60

  validation {
    condition     = var.quiet_minutes == null ? true : var.quiet_minutes >= 5 && var.quiet_minutes <= 1440
    error_message = "5 minutes to a day."
  }
}

variable "session_run_seconds" {
  description = "TURNSTILE_SESSION_RUN_SECONDS: how long a session lock is expected to be held. Three times that is told, or three time-outs of the queue if they are longer (L6)."
  type        = number
  default     = 30
}

variable "kms_key_arn" {
  description = "Customer-managed key of the topics. It must let cloudwatch.amazonaws.com use it, which the AWS-managed key does not."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of alarms and topics."
  type        = map(string)
  default     = {}
}
