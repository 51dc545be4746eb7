variable "name" {
  description = "Prefix of the database's and the caches' names."
  type        = string
}

variable "vpc_id" {
  description = "VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets, in at least two availability zones."
  type        = list(string)
}

variable "client_security_group_ids" {
  description = "Security groups that may connect: those of the tasks."
  type        = map(string)
}

variable "postgres_version" {
  description = "Major version of PostgreSQL; Turnstile is tested with 18."
  type        = string
  default     = "18"
}

variable "instance_class" {
  description = "Class of the database instance."
  type        = string
  default     = "db.m7g.large"
}

variable "storage_gib" {
  description = "Storage of the database; it grows by itself to four times that."
  type        = number
  default     = 100
}

variable "backup_days" {
  description = "Days that point-in-time recovery reaches back."
  type        = number
  default     = 14
}

variable "kms_key_arn" {
  description = "Customer-managed key for what is stored; AWS-managed keys when left out."
  type        = string
  default     = null
}

variable "redis_node_type" {
  description = "Node type of each cache."
  type        = string
  default     = "cache.m7g.large"
}

variable "redis_snapshot_days" {
  description = "Days that daily snapshots of the caches are kept."
  type        = number
  default     = 7
}

variable "redis_auth_token" {
  description = "Password (AUTH token) of both caches: 16 to 128 characters, letters and digits for instance. It enters the state, because the provider has no write-only argument for it: keep that encrypted. Null: none, and the security group alone decides who gets in."
  type        = string
  sensitive   = true
}

variable "deletion_protection" {
  description = "Off only where a deployment is thrown away."
  type        = bool
  default     = true
}

variable "tags" {
  description = "Tags of everything here."
  type        = map(string)
  default     = {}
}
