variable "name" {
  description = "Prefix of everything."
  type        = string
  default     = "turnstile"
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "account_id" {
  description = "AWS account. Another one is refused."
  type        = string
}

variable "check_account" {
  description = "Ask AWS whether the credentials are those of `account_id`. Off only for a plan without an account, which reads no secret either."
  type        = bool
  default     = true
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "private_subnet_ids" {
  description = "Private subnets for tasks, endpoints and data, in at least two availability zones."
  type        = list(string)
}

variable "private_route_table_ids" {
  description = "Their route tables."
  type        = list(string)
}

variable "load_balancer_subnet_ids" {
  description = "Subnets of the load balancer: public ones, or private ones with `internal`."
  type        = list(string)
}

variable "internal" {
  description = "Whether the load balancer is reached from inside the VPC only."
  type        = bool
  default     = true
}

variable "client_cidrs" {
  description = "Where clients come from."
  type        = list(string)
}

variable "certificate_arn" {
  description = "ACM certificate of the API's host name."
  type        = string
}

variable "access_logs_bucket" {
  description = "S3 bucket for the load balancer's access logs: which address asked for what, and when. They have the ids of sessions and turns, no key and no content. The bucket's policy must let Elastic Load Balancing write. Left out: no log."
  type        = string
  default     = null
}

variable "image" {
  description = "Image with Turnstile and the handler, by digest."
  type        = string
}

variable "repository_arn" {
  description = "ECR repository of the image."
  type        = string
}

variable "handler" {
  description = "module:function of the handler in the image."
  type        = string
}

variable "worker_start_seconds" {
  description = "How long a worker may take to load the handler; 300 at most."
  type        = number
  default     = 30
}

variable "lease_seconds" {
  description = "TURNSTILE_LEASE_SECONDS of all processes, and what every queue's visibility timeout is checked against."
  type        = number
  default     = 30
}

variable "maximum_workers" {
  description = "Worker tasks of a queue at most."
  type        = number
  default     = 20
}

variable "page_emails" {
  description = "Who is paged."
  type        = list(string)
  default     = []
}

variable "redis_auth_token_secret_arn" {
  description = "Secret that has the password of both caches, made by hand: infra/README.md. Terraform reads it, and so it is in the state: keep that encrypted."
  type        = string
}

variable "sealing_keys_file" {
  description = "File of the image with the keys that seal contents, each of them sealed by KMS (docs/sealing.md). Null: contents are stored as they are."
  type        = string
  default     = null
}

variable "sealing_kms_key_arn" {
  description = "The key of KMS that has sealed them."
  type        = string
  default     = null

  validation {
    condition     = (var.sealing_kms_key_arn == null) == (var.sealing_keys_file == null)
    error_message = "The API and the workers need both: the file, and leave to open its keys."
  }
}

variable "owner" {
  description = "The team that runs Turnstile: alarms name it."
  type        = string
  default     = "operators"
}

variable "handler_owner" {
  description = "The team of the handler: alarms on failed turns and halted sessions name it. Null: `owner`."
  type        = string
  default     = null
}

variable "runbooks" {
  description = "Folder or URL of docs/runbooks, as alarms name it."
  type        = string
  default     = "docs/runbooks"
}

variable "metrics_port" {
  description = "Where API, workers and relay serve their metrics for Prometheus (docs/metrics.md); 9464, for instance. Null: nowhere."
  type        = number
  default     = null
}

variable "metrics_security_group_ids" {
  description = "Who may scrape them: security groups by names of your own. Nobody else reaches the port."
  type        = map(string)
  default     = {}

  validation {
    condition     = length(var.metrics_security_group_ids) == 0 || var.metrics_port != null
    error_message = "Without `metrics_port` there is nothing to scrape."
  }
}

variable "telemetry" {
  description = "OpenTelemetry's variables for all tasks (docs/telemetry.md): OTEL_EXPORTER_OTLP_ENDPOINT turns traces and metrics on. Nothing secret: they enter the state."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name in keys(var.telemetry) : startswith(name, "OTEL_")])
    error_message = "Only variables whose name begins with OTEL_."
  }
}
