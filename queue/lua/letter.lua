-- Dead letters keep every field of the entry that is not the letter's own, byte for byte.
-- unpack() takes fewer than 8,000 values: past a thousand fields the rest goes, packed, into one.
local MOST_FIELDS = 1000
local function carry_over(letter, fields, own)
  local count, rest = 0, {}
  for i = 1, #fields, 2 do
    if not own[fields[i]] then
      local list = letter
      if count >= MOST_FIELDS and fields[i] ~= 'job' then list = rest end
      list[#list + 1] = fields[i]
      list[#list + 1] = fields[i + 1]
      count = count + 1
    end
  end
  if #rest > 0 then
    letter[#letter + 1] = 'more_fields'
    letter[#letter + 1] = cmsgpack.pack(rest)
  end
end
