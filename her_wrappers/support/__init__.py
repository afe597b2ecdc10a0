"""Arguments, texts of errors, warnings and locks."""
