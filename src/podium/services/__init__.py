"""What the protocol can do. Store, identity and time are arguments."""
