package org.flinkagents.durable.actions;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Reads MessagePack as Python writes it: null, Boolean, Long, Double, String, byte[], List, Map.
 */
public final class Unpacker {
    private final byte[] data;
    private int place;

    Unpacker(byte[] data) {
        this.data = data;
    }

    public static Object unpack(byte[] data) {
        return new Unpacker(data).value();
    }

    int array() {
        return ((Number) sized(next())).intValue();
    }

    long number() {
        return (Long) value();
    }

    String text() {
        return (String) value();
    }

    UUID uuid() {
        String text = text();
        return text == null ? null : UUID.fromString(text);
    }

    /** A number or null. */
    Long optional() {
        return (Long) value();
    }

    boolean bool() {
        return (Boolean) value();
    }

    byte[] bytes() {
        return (byte[]) value();
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> map() {
        return (Map<String, Object>) value();
    }

    @SuppressWarnings("unchecked")
    List<Object> list() {
        return (List<Object>) value();
    }

    Object value() {
        int code = next();
        if (code < 0x80) {
            return (long) code;
        }
        if (code >= 0xe0) {
            return (long) (byte) code;
        }
        if (code < 0x90) {
            return map(code & 15);
        }
        if (code < 0xa0) {
            return list(code & 15);
        }
        if (code < 0xc0) {
            return text(code & 31);
        }
        return other(code);
    }

    private Object other(int code) {
        switch (code) {
            case 0xc0:
                return null;
            case 0xc2:
                return Boolean.FALSE;
            case 0xc3:
                return Boolean.TRUE;
            case 0xc4:
            case 0xc5:
            case 0xc6:
                return bytes((int) unsigned(1 << (code - 0xc4)));
            case 0xca:
                return (double) Float.intBitsToFloat((int) unsigned(4));
            case 0xcb:
                return Double.longBitsToDouble(unsigned(8));
            case 0xcc:
            case 0xcd:
            case 0xce:
                return unsigned(1 << (code - 0xcc));
            case 0xcf:
                long bits = unsigned(8);
                return bits >= 0 ? (Object) bits : new BigInteger(Long.toUnsignedString(bits));
            case 0xd0:
                return (long) (byte) unsigned(1);
            case 0xd1:
                return (long) (short) unsigned(2);
            case 0xd2:
                return (long) (int) unsigned(4);
            case 0xd3:
                return unsigned(8);
            case 0xd9:
            case 0xda:
            case 0xdb:
                return text((int) unsigned(1 << (code - 0xd9)));
            case 0xdc:
            case 0xdd:
                return list((int) unsigned(2 << (code - 0xdc)));
            case 0xde:
            case 0xdf:
                return map((int) unsigned(2 << (code - 0xde)));
            default:
                throw new IllegalStateException("Unknown code " + code + " in a message");
        }
    }

    private Object sized(int code) {
        if ((code & 0xf0) == 0x90) {
            return code & 15;
        }
        return unsigned(2 << (code - 0xdc));
    }

    private int next() {
        return data[place++] & 0xff;
    }

    private long unsigned(int bytes) {
        long value = 0;
        for (int i = 0; i < bytes; i++) {
            value = value << 8 | next();
        }
        return value;
    }

    private String text(int length) {
        String text = new String(data, place, length, StandardCharsets.UTF_8);
        place += length;
        return text;
    }

    private byte[] bytes(int length) {
        byte[] bytes = new byte[length];
        System.arraycopy(data, place, bytes, 0, length);
        place += length;
        return bytes;
    }

    private List<Object> list(int length) {
        List<Object> list = new ArrayList<>(length);
        for (int i = 0; i < length; i++) {
            list.add(value());
        }
        return list;
    }

    private Map<String, Object> map(int length) {
        Map<String, Object> map = new LinkedHashMap<>(length * 2);
        for (int i = 0; i < length; i++) {
            map.put(String.valueOf(value()), value());
        }
        return map;
    }
}
