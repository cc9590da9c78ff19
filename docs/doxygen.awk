# Turns the comments of a header into Doxygen's, for docs/Doxyfile.
#
#   // At the top of the file.     describes the file, and the class that its first line names if nothing else does
#   // Before a declaration.       describes it
#   int size;  // Behind one.      the same
#   // ---- A title. And text.     begins a group of members, which ends where the next begins or the scope ends
#   //   code                      three spaces or more: code
#
# Characters that mean something to Doxygen are escaped, but for `code` between backquotes.

# A line of prose, escaped outside of backquotes. A full stop that is quoted would end the brief description within
# the quote; it is put behind it.
function escaped(text,    parts, count, i, out) {
  count = split(text, parts, "`")
  for (i = 1; i <= count; ++i) {
    if (i % 2 == 1 || i == count) gsub(/[@\\<>#%]/, "\\\\&", parts[i])
    else parts[i] = sub(/\.$/, "", parts[i]) ? "`" parts[i] "`." : "`" parts[i] "`"
    out = out parts[i]
  }
  return out
}

# Prints lines 1 to n of `text`, whose slashes are gone, as one comment.
function print_comment(text, n, indent, head,    i, code) {
  if (head != "") print indent "/// " head
  for (i = 1; i <= n; ++i) {
    if (text[i] ~ /^   / && !code) { print indent "/// @code{.cpp}"; code = 1 }
    if (text[i] !~ /^   / && text[i] != "" && code) { print indent "/// @endcode"; code = 0 }
    print indent "///" (code ? text[i] : escaped(text[i]))
  }
  if (code) print indent "/// @endcode"
}

function close_group() {
  if (in_group) print "///@}"
  in_group = 0
}

# The comment that was read begins a group. Its first words are the title; the rest is about the group as far as
# the first line that ends a sentence, or all of it before an empty line; what then follows is about the member.
function begin_group(next_line,    title, rest, last, i, n) {
  last = count
  for (i = 1; next_line !~ /^[ \t]*$/ && i < count; ++i)
    if (comment[i] ~ /\.$/) { last = i; break }
  title = comment[1]
  sub(/^ -+ */, "", title)
  rest = match(title, /[.:;]( |$)/) ? substr(title, RSTART + 1) : ""
  if (RSTART > 0) title = substr(title, 1, RSTART - 1)
  gsub(/`/, "", title)
  print indent_of_comment "/// @name " title
  comment[1] = rest
  print_comment(comment, last, indent_of_comment, "")
  print indent_of_comment "///@{"
  for (i = last + 1; i <= count; ++i) member[++n] = comment[i]
  if (n > 0) print_comment(member, n, indent_of_comment, "")
  in_group = 1
  group_indent = length(indent_of_comment)
}

# The comment that was read, before the line `next_line` that is none.
function flush(next_line,    i) {
  if (count == 0) return
  if (!file_seen) {
    file_seen = 1
    for (i = 1; i <= count; ++i) about[i] = comment[i]
    about_count = count
    print_comment(comment, count, "", "@file")
  } else if (comment[1] ~ /^ ----/) {
    close_group()
    begin_group(next_line)
  } else if (next_line ~ /^[ \t]*$/) {
    for (i = 1; i <= count; ++i) print indent_of_comment "//" comment[i]  # describes nothing that follows
  } else {
    print_comment(comment, count, indent_of_comment, "")
    documented = 1
  }
  count = 0
}

match($0, /^[ ]*\/\//) && !/^[ ]*\/\/\// {
  if (count == 0) indent_of_comment = substr($0, 1, RLENGTH - 2)
  comment[++count] = substr($0, RLENGTH + 1)
  next
}

{
  documented = 0
  flush($0)
  # A scope that ends ends its group.
  if (in_group && match($0, /^ *}/) && RLENGTH - 1 <= (group_indent > 0 ? group_indent - 2 : 0)) close_group()
  if (!documented && about_count > 0 && match($0, /^(class|struct|enum class) [A-Za-z]+/) && !/;$/) {
    name = substr($0, RSTART, RLENGTH)
    sub(/.* /, "", name)
    if ((" " about[1]) ~ ("[^A-Za-z]" name "[^A-Za-z]")) print_comment(about, about_count, "", "")
  }
  line = $0
  sub(/ *\/\/ NOLINT.*$/, "", line)
  if (line !~ /^ *}  \/\/ namespace/ && match(line, /[^ ] +\/\/ /)) {
    at = RSTART + RLENGTH
    line = substr(line, 1, RSTART) "  ///< " escaped(substr(line, at))
  }
  print line
}

END {
  flush("")
  close_group()
}
