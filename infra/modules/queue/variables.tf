variable "name" {
  description = "What the queue is called in Turnstile; the SQS queue gets the prefix before it."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9._-]{1,64}$", var.name))
    error_message = "Letters, digits, dot, underscore and hyphen, 64 at most."
  }
}

variable "prefix" {
  description = "Put before the names in SQS, so that several deployments share an account."
  type        = string
  default     = "turnstile-"
}

variable "fifo" {
  description = "A FIFO queue. Order within a session does not need one: the table keeps it on both kinds."
  type        = bool
  default     = false
}

variable "visibility_seconds" {
  description = "Base visibility timeout; the heartbeat extends it while a turn runs, so it need not cover the longest turn."
  type        = number
  default     = 60

  validation {
    condition     = var.visibility_seconds >= 1 && var.visibility_seconds <= 43200
    error_message = "SQS takes 1 second to 12 hours."
  }

  validation {
    condition     = var.lease_seconds <= var.visibility_seconds
    error_message = "The lease must not be longer than the visibility timeout: the worker would refuse to start."
  }

  validation {
    condition     = var.lease_seconds / 3 <= var.visibility_seconds / 2
    error_message = "The heartbeat (a third of the lease) must be at most half the visibility timeout."
  }
}

variable "lease_seconds" {
  description = "TURNSTILE_LEASE_SECONDS of the workers, which the visibility timeout has to agree with."
  type        = number
  default     = 30
}

variable "max_attempts" {
  description = "Attempts of a turn, counted in the table and never by SQS."
  type        = number
  default     = 5
}

variable "timeout_seconds" {
  description = "How long one attempt may take."
  type        = number
  default     = 300
}

variable "max_timeout_seconds" {
  description = "The longest time-out of an attempt that a submit may ask for: so long can a client hold a slot. Null: 14 days."
  type        = number
  default     = null
}

variable "expires_in_seconds" {
  description = "Retries, snoozes and takeovers of a turn end so long after its submit."
  type        = number
  default     = 900
}

variable "purpose" {
  description = "What the queue is for, as `turnstile queues list` shows it to operators."
  type        = string
  default     = null
}

variable "owner" {
  description = "The team that looks after the handler and the dead letters, as `turnstile queues list` shows it."
  type        = string
  default     = null
}

variable "on_failure" {
  description = "Whether a turn that finally failed is dead-lettered, or halts its session."
  type        = string
  default     = "dead_letter"

  validation {
    condition     = contains(["dead_letter", "halt"], var.on_failure)
    error_message = "dead_letter or halt."
  }
}

variable "max_receive_count" {
  description = "The backstop: after so many receives SQS moves a message that no worker came to terms with. Far above any count that ordinary work reaches."
  type        = number
  default     = 1000

  validation {
    condition     = var.max_receive_count >= 100 && var.max_receive_count <= 1000
    error_message = "100 to 1,000 (the most that SQS takes): below, it would dead-letter healthy turns."
  }
}

variable "kms_key_arn" {
  description = "A customer-managed key (SSE-KMS) instead of SSE-SQS. Messages hold ids only, so SSE-SQS is enough for most."
  type        = string
  default     = null
}

variable "vpc_endpoint_ids" {
  description = "When given, messages are sent and received through these VPC endpoints only. Managing the queue stays possible from anywhere."
  type        = list(string)
  default     = []
}

variable "tags" {
  description = "Tags of both queues."
  type        = map(string)
  default     = {}
}
