print("plain Python")
