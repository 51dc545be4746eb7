"""`make infra-check`: what `infra/` says, checked by Terraform and against an emulator of AWS that asks for permission.

__main__.py is the order of the steps. The check_*.py files are tests that need its stage: by their names `make test` does not
collect them.
"""
