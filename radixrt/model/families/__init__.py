"""One small file for each model family."""
