"""One durable workflow per device incident."""
