WORD = "relative"
