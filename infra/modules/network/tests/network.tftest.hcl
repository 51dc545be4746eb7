# Whose queues are reached from here, and with whose credentials.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "cn-north-1" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws-cn" }
  }
}

variables {
  name                      = "test"
  vpc_id                    = "vpc-0123456789abcdef0"
  subnet_ids                = ["subnet-0123456789abcdef0"]
  route_table_ids           = ["rtb-0123456789abcdef0"]
  client_security_group_ids = { tasks = "sg-0123456789abcdef0" }
  account_id                = "123456789012"
}

run "the_queues_of_this_account_in_its_own_partition" {
  assert {
    condition     = jsondecode(aws_vpc_endpoint.interface["sqs"].policy).Statement[0].Resource == "arn:aws-cn:sqs:cn-north-1:123456789012:*"
    error_message = "China and GovCloud are partitions of their own: with another's name the policy would allow nothing."
  }
}

run "only_identities_of_this_account" {
  assert {
    condition = alltrue([
      for one in aws_vpc_endpoint.interface :
      jsondecode(one.policy).Statement[0].Condition.StringEquals["aws:PrincipalAccount"] == var.account_id
    ])
    error_message = "Through an endpoint without a policy, whoever runs code in a task sends what it reads to an account of its own."
  }
}
