# cmake -D FROM=FILE -D TO=HEADER -P embed.cmake: the file's bytes as an array.
# As numbers, since a string literal would be joined, cut and escaped.
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes
  "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "// Made by embed.cmake.\n"
  "#pragma once\n"
  "inline constexpr char kStatusPageText[] = {\n${bytes}};\n")
