"""Text for language models: files of it, WordPiece, sequences of fixed length, and masks over them."""
