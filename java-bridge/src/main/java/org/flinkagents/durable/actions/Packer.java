package org.flinkagents.durable.actions;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.flinkagents.durable.api.DurableSerializationException;
import org.flinkagents.durable.api.Values;

/** Writes MessagePack, which Python reads fast and which, unlike JSON, has bytes. */
public final class Packer {
    /** Bounds a value that contains itself, long before the stack ends. */
    private static final int MAX_DEPTH = 200;

    private byte[] buffer = new byte[128];
    private int size;
    private int depth;

    public static byte[] pack(Object value) {
        return new Packer().value(value).toBytes();
    }

    byte[] toBytes() {
        return Arrays.copyOf(buffer, size);
    }

    boolean isEmpty() {
        return size == 0;
    }

    void clear() {
        size = 0;
    }

    int size() {
        return size;
    }

    /** Forgets what was written since the size was this. */
    void truncate(int size) {
        this.size = size;
    }

    Packer array(int length) {
        return header(length, 0x90, 15, 0xdc, 0xdd);
    }

    Packer map(int length) {
        return header(length, 0x80, 15, 0xde, 0xdf);
    }

    Packer number(long value) {
        if (value >= -32 && value < 128) {
            return raw((int) value);
        }
        if (value >= Short.MIN_VALUE && value <= Short.MAX_VALUE) {
            return raw(0xd1).fixed(value, 2);
        }
        if (value >= Integer.MIN_VALUE && value <= Integer.MAX_VALUE) {
            return raw(0xd2).fixed(value, 4);
        }
        return raw(0xd3).fixed(value, 8);
    }

    Packer text(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length < 32) {
            raw(0xa0 | bytes.length);
        } else {
            header(bytes.length, 0, -1, 0xda, 0xdb);
        }
        return append(bytes, bytes.length);
    }

    Packer bytes(byte[] bytes) {
        return header(bytes.length, 0, -1, 0xc5, 0xc6).append(bytes, bytes.length);
    }

    Packer bool(boolean value) {
        return raw(value ? 0xc3 : 0xc2);
    }

    Packer nil() {
        return raw(0xc0);
    }

    /** What another packer wrote. */
    Packer packed(Packer other) {
        return append(other.buffer, other.size);
    }

    Packer packed(byte[] packed) {
        return append(packed, packed.length);
    }

    /** Any value; throws DurableSerializationException for one without such a form. */
    Packer value(Object value) {
        if (value == null) {
            return nil();
        }
        if (value instanceof String) {
            return text((String) value);
        }
        if (value instanceof Boolean) {
            return bool((Boolean) value);
        }
        if (value instanceof Number) {
            return number((Number) value);
        }
        if (value instanceof byte[]) {
            return bytes((byte[]) value);
        }
        if (++depth > MAX_DEPTH) {
            throw new DurableSerializationException(
                    "A value is nested more than " + MAX_DEPTH + " deep, or contains itself");
        }
        try {
            return composite(value);
        } finally {
            depth--;
        }
    }

    private Packer number(Number value) {
        if (value instanceof Long
                || value instanceof Integer
                || value instanceof Short
                || value instanceof Byte) {
            return number(value.longValue());
        }
        if (value instanceof Double || value instanceof Float) {
            return raw(0xcb).fixed(Double.doubleToLongBits(value.doubleValue()), 8);
        }
        if (value instanceof BigInteger && ((BigInteger) value).bitLength() < 64) {
            return number(value.longValue());
        }
        if (value instanceof BigInteger || value instanceof BigDecimal) {
            return text(value.toString()); // Jackson reads them from a text
        }
        return composite(value);
    }

    private Packer composite(Object value) {
        if (value instanceof Map) {
            Map<?, ?> entries = (Map<?, ?>) value;
            map(entries.size());
            for (Map.Entry<?, ?> entry : entries.entrySet()) {
                Object key = entry.getKey();
                text(key instanceof Enum ? ((Enum<?>) key).name() : String.valueOf(key));
                value(entry.getValue());
            }
            return this;
        }
        if (value instanceof List || value instanceof Set) {
            Collection<?> items =
                    value instanceof List ? (List<?>) value : Values.ordered((Set<?>) value);
            array(items.size());
            for (Object item : items) {
                value(item);
            }
            return this;
        }
        return value(Values.plain(value));
    }

    private Packer header(int length, int fix, int maxFix, int code16, int code32) {
        if (length <= maxFix) {
            return raw(fix | length);
        }
        return length < 1 << 16 ? raw(code16).fixed(length, 2) : raw(code32).fixed(length, 4);
    }

    private Packer raw(int value) {
        reserve(1);
        buffer[size++] = (byte) value;
        return this;
    }

    private Packer fixed(long value, int bytes) {
        reserve(bytes);
        for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
            buffer[size++] = (byte) (value >>> shift);
        }
        return this;
    }

    private Packer append(byte[] bytes, int length) {
        reserve(length);
        System.arraycopy(bytes, 0, buffer, size, length);
        size += length;
        return this;
    }

    private void reserve(int more) {
        if (buffer.length - size < more) {
            buffer = Arrays.copyOf(buffer, Math.max(buffer.length * 2, Math.addExact(size, more)));
        }
    }
}
