"""The wires of an event stream: the same events, with the same ids, in the forms that different clients read. Pure."""
