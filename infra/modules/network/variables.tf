variable "name" {
  description = "Prefix of the endpoints' names."
  type        = string
}

variable "vpc_id" {
  description = "The VPC the tasks run in. DNS support and DNS host names must be on."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of the tasks; an endpoint gets an address in each."
  type        = list(string)
}

variable "route_table_ids" {
  description = "Route tables of those subnets, for S3: image layers come from there."
  type        = list(string)
}

variable "client_security_group_ids" {
  description = "Security groups that may reach the endpoints: those of the tasks."
  type        = map(string)
}

variable "account_id" {
  description = "Calls through an interface endpoint need credentials of this account; through that of SQS they may only concern its queues."
  type        = string
}

variable "services" {
  description = "Interface endpoints."
  type        = set(string)
  default     = ["sqs", "ecr.api", "ecr.dkr", "logs", "secretsmanager", "kms"]
}

variable "tags" {
  description = "Tags of everything here."
  type        = map(string)
  default     = {}
}
