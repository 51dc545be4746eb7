variable "name" {
  description = "Prefix of the roles."
  type        = string
}

variable "queues" {
  description = "Every declared queue by its name: output `access` of module queue."
  type = map(object({
    arn         = string
    dlq_arn     = string
    kms_key_arn = optional(string)
  }))
}

variable "cluster_arn" {
  description = "The ECS cluster the tasks run in; a worker may protect its tasks there, and nobody else's."
  type        = string
}

variable "sealing_kms_key_arn" {
  description = "Key of KMS that has sealed the keys of contents (docs/sealing.md), if there is one. The API and the workers may open them."
  type        = string
  default     = null
}

variable "permissions_boundary" {
  description = "ARN of a permissions boundary for every role."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of the roles."
  type        = map(string)
  default     = {}
}
