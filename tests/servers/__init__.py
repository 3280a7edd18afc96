"""What a server built with latspan sees and says of the requests that it serves."""
