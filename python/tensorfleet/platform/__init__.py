"""What a program asks of the system around it: flags, logging, files, tests, nested structures."""
