"""The UCI handwritten digits: 1,437 training and 360 held-out 8x8 images as TFRecords."""
