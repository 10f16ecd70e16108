"""The task "answering": questions about stories."""
