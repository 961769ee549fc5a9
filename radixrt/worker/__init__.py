"""The worker: messages, sockets, the program interpreter and its supervisor."""
