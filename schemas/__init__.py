"""What a message is: models, reasons, JSON Schemas and the codec."""
