"""Whether the tests would see a mistake: small mistakes made on purpose, and which of them fail no test."""
