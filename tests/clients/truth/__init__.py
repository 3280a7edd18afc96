"""What every client's timeline is worth on real sockets, beside what the server wrote down."""
