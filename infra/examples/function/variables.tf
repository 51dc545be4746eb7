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
  description = "Ask AWS whether the credentials are those of `account_id`. Off only for a plan without an account."
  type        = bool
  default     = true
}

variable "image" {
  description = "Image with Turnstile, the handler and awslambdaric, by digest."
  type        = string
}

variable "handler" {
  description = "module:function of the handler in the image."
  type        = string
}

variable "private_subnet_ids" {
  description = "Private subnets, where Postgres and Redis are reached."
  type        = list(string)
}

variable "security_group_ids" {
  description = "Security groups of the function: those that database and caches let in."
  type        = list(string)
}

variable "secrets" {
  description = "DATABASE_URL, REDIS_URL and TURNSTILE_MEMORY_REDIS_URL => ARN of the secret: output `secrets` of examples/complete, where DATABASE_URL is `worker/DATABASE_URL`."
  type        = map(string)
}

variable "secrets_kms_key_arn" {
  description = "Customer-managed key of the secrets, if there is one."
  type        = string
  default     = null
}

variable "telemetry" {
  description = "OpenTelemetry's variables (docs/telemetry.md), for traces: a function exports no metrics. Nothing secret: they enter the state."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name in keys(var.telemetry) : startswith(name, "OTEL_")])
    error_message = "Only variables whose name begins with OTEL_."
  }
}
