// A user's header, which no header of meshwork may find in place of its own.
#error shadowed
