variable "name" {
  description = "Prefix of alarms and topics, and part of the metrics' namespace."
  type        = string
}

variable "queues" {
  description = "The queues by their names: outputs of module queue, the log group of the queue's workers (module service), how long one attempt may take (`timeout_seconds` of module queue), and how long a session lock is usually held (`hold_seconds`; left out: `session_run_seconds`)."
  type = map(object({
    sqs_name         = string
    dlq_name         = string
    worker_log_group = string
    timeout_seconds  = optional(number, 300)
    hold_seconds     = optional(number)
    owner            = optional(string)
  }))
}

variable "owner" {
  description = "Who owns the alarms: the team that runs Turnstile. `owner` of a queue is the team of its handler, which owns its failed turns, halted sessions and blocked loops."
  type        = string
  default     = "operators"
}

variable "runbooks" {
  description = "Folder or URL of the runbooks, as alarms name it: where the people who are paged can open it."
  type        = string
  default     = "docs/runbooks"
}

variable "thresholds" {
  description = "Thresholds that differ from the defaults, by alarm: local.thresholds in main.tf has all of them with their units."
  type        = map(number)
  default     = {}

  validation {
    condition     = alltrue([for alarm in keys(var.thresholds) : contains(keys(local.thresholds_known), alarm)])
    error_message = "An alarm with a threshold: see local.thresholds in main.tf."
  }
}

variable "relay_log_groups" {
  description = "Log groups of whatever runs relays, which report the backlog: the relay service's; the workers' if they run relays. Where given, their silence pages."
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
  description = "This many waiting messages notify without paging. Autoscaling has its own threshold."
  type        = number
  default     = 10000
}

variable "quiet_minutes" {
  description = "No message sent for this long notifies: the producer is gone, or it is night. Null: never."
  type        = number
  default     = 60

  validation {
    condition     = var.quiet_minutes == null ? true : var.quiet_minutes >= 5 && var.quiet_minutes <= 1440
    error_message = "5 minutes to a day."
  }
}

variable "services" {
  description = "ECS services whose CPU, memory and deployments are watched, by names of your own: outputs of module service."
  type = map(object({
    cluster_name = string
    service_name = string
    service_arn  = string
  }))
  default = {}
}

variable "postgres" {
  description = "The RDS instance to watch, and its storage in GiB. Null: none."
  type = object({
    identifier  = string
    storage_gib = number
  })
  default = null
}

variable "redis_nodes" {
  description = "ElastiCache nodes to watch (`CacheClusterId`), by names of your own."
  type        = map(string)
  default     = {}
}

variable "load_balancer" {
  description = "The API's load balancer and target group (`arn_suffix` of each), whose 5xx are watched. Null: none."
  type = object({
    load_balancer = string
    target_group  = string
  })
  default = null
}

variable "session_run_seconds" {
  description = "TURNSTILE_SESSION_RUN_SECONDS: how long a session lock is usually held at most. A lock that is held three times as long is reported. `hold_seconds` of a queue replaces it, where one turn usually takes longer."
  type        = number
  default     = 30
}

variable "kms_key_arn" {
  description = "Customer-managed key of the topics. It must let cloudwatch.amazonaws.com and events.amazonaws.com use it, which the AWS-managed key does not."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of alarms and topics."
  type        = map(string)
  default     = {}
}
